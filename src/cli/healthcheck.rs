//! `healthcheck`: one plain request to `/readyz`. In a distroless image there is no shell and no curl to do it.

use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::net::ToSocketAddrs as _;
use std::time::Duration;

use crate::cli::args::HealthcheckArgs;
use crate::cli::args::LogArgs;
use crate::cli::exit_code;
use crate::cli::failure::Failure;
use crate::cli::failure::Outcome;
use crate::cli::setup;
use crate::clock::Deadline;

/// Bytes of the answer that are read: the status line is all that counts, the rest is for people.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Asks.
///
/// # Errors
/// The process is not ready, or does not answer in time.
pub fn run(args: &HealthcheckArgs, log: &LogArgs) -> Outcome {
    let address = match &args.address {
        Some(address) => resolve(address)?,
        None => reachable(setup::load(&args.config, log)?.config.http.listen),
    };
    let fail = |cause: String| Failure::new(exit_code::FAILED, format!("not ready: http://{address}/readyz: {cause}"));
    let answer = ask(address, Duration::from_millis(args.timeout_ms)).map_err(|error| fail(error.to_string()))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
    if code == "200" {
        return Ok(());
    }
    let why: String = body.trim().chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
    Err(fail(if why.is_empty() { format!("answered {status:?}") } else { format!("answered {status:?}\n{why}") }))
}

fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let found = address.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: --address {address:?} is no host:port that can be found")))
}

/// An address that stands for every interface is asked on the loopback one.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn ask(address: SocketAddr, wait: Duration) -> io::Result<String> {
    let deadline = Deadline::after(wait);
    let left = || match deadline.left() {
        left if left.is_zero() => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(format!("GET /readyz?verbose HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 1024];
    while answer.len() < ANSWER_BYTES_MAX {
        stream.set_read_timeout(Some(left()?))?;
        let read = stream.read(&mut chunk).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
            _ => error,
        })?;
        if read == 0 {
            break;
        }
        answer.extend(chunk.iter().take(read));
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
