//! One plain request to a running process: address, request, answer, each with its bound.

use std::io;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use loopwarden_log::clock::Deadline;
use loopwarden_settings::{Config, LocalClients, TokenConfig};

use crate::exit_code;
use crate::failure::Failure;

/// The address that a user wrote; the URL of a process stands for its address.
///
/// # Errors
/// It cannot be found.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr, Failure> {
    let plain = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    let found = plain.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: --address {address:?} is no host:port that can be found")))
}

/// An address that stands for every interface is asked on the loopback one.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Where the running process is, and the token that lets one in: as the settings have it, but for an address that a user wrote. Where
/// everybody on this host needs a token, that of an operator serves too.
///
/// # Errors
/// It cannot be found; the token's file cannot be read.
pub(crate) fn process(address: Option<&str>, config: &Config) -> Result<(SocketAddr, Option<String>), Failure> {
    let http = &config.http;
    let address = match address {
        Some(address) => resolve(address)?,
        None => reachable(http.listen),
    };
    if let Some(token) = http.token()? {
        return Ok((address, Some(token)));
    }
    let is_of_operator = |token: &TokenConfig| token.roles().contains(&"operator") && token.tenants().is_none();
    let own = config.token.iter().position(is_of_operator).filter(|_| http.local == LocalClients::Token);
    let secret = own.and_then(|index| Some(config.token.get(index)?.secret(index))).transpose()?;
    Ok((address, secret))
}

/// The status line of an answer, the code in it, and the body.
pub(crate) fn parts(answer: &str) -> (&str, &str, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or_default();
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
    (status, code, body)
}

/// What follows the reason in a message about an answer of this code: the process says what a request needs, not what a command
/// is to be given for it.
pub(crate) fn way_in(code: &str) -> &'static str {
    if code == "401" { "; give --config, or --set http.token_file=FILE" } else { "" }
}

/// Asks for a path, and returns the whole answer, head and body; of a longer one its first `bytes_max` bytes.
///
/// # Errors
/// As any connection, or no answer within `wait`.
pub(crate) fn get(address: SocketAddr, path: &str, token: Option<&str>, wait: Duration, bytes_max: usize) -> io::Result<String> {
    exchange(address, (&format!("GET {path}"), ""), token, wait, bytes_max)
}

/// Sends a JSON text to a path, and returns the answer likewise.
///
/// # Errors
/// As [`get`].
pub(crate) fn post(
    address: SocketAddr,
    (path, json): (&str, &str),
    token: Option<&str>,
    wait: Duration,
    bytes_max: usize,
) -> io::Result<String> {
    exchange(address, (&format!("POST {path}"), json), token, wait, bytes_max)
}

fn exchange(
    address: SocketAddr,
    (asked, body): (&str, &str),
    token: Option<&str>,
    wait: Duration,
    bytes_max: usize,
) -> io::Result<String> {
    let deadline = Deadline::after(wait);
    let left = || match deadline.left() {
        left if left.is_zero() => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{asked} HTTP/1.1\r\nHost: {address}\r\n{token}{length}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = [0; 16 * 1024];
    while answer.len() < bytes_max {
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
    answer.truncate(bytes_max);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A part of a path: whatever is not plain is escaped.
pub(crate) fn path_part(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escaped).collect()
}

/// Why nobody answers, and what to do.
pub(crate) fn nobody(address: SocketAddr, error: &io::Error) -> String {
    let start = match address.to_string().as_str() {
        "127.0.0.1:9464" => "loopwarden run --data-dir ./lw".to_owned(),
        other => format!("loopwarden run --data-dir ./lw --set http.listen={other}"),
    };
    format!("{error}\n  no loopwarden answers there; start one: {start}\n  one that runs elsewhere: --address HOST:PORT")
}
