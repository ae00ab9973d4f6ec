//! One plain request to a running process: address, a look at who listens there, request, answer, each with its bound.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::{io, time::Duration};

use loopwarden_ask::is_stranger;
use loopwarden_log::clock::Deadline;
use loopwarden_settings::{Config, LocalClients, TokenConfig};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{exit_code, failure::Failure};

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

/// A running process: where it is, and the token that lets one in.
#[derive(Debug, Clone)]
pub(crate) struct RunningProcess {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
}

/// An answer, whatever its status. Of a process that ends before it has answered, all is empty.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// The status line, as `HTTP/1.1 404 Not Found`.
    pub(crate) status: String,
    /// The three digits of its code.
    pub(crate) code: String,
    pub(crate) body: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// Nobody answers, or not now: another try may help.
    Away(String),
    /// It says no, or what cannot be read.
    Refused(String),
}

impl From<Unanswered> for Failure {
    fn from((Unanswered::Away(why) | Unanswered::Refused(why)): Unanswered) -> Self {
        Self::failed(why)
    }
}

impl RunningProcess {
    /// As the settings have it, but for an address that a user wrote. Where everybody on this host needs a token, that of an operator serves
    /// too.
    ///
    /// # Errors
    /// It cannot be found; the token's file cannot be read.
    pub(crate) fn of(address: Option<&str>, config: &Config) -> Result<Self, Failure> {
        let http = &config.http;
        let address = match address {
            Some(address) => resolve(address)?,
            None => reachable(http.listen),
        };
        if let Some(token) = http.token()? {
            return Ok(Self { address, token: Some(token) });
        }
        let is_of_operator = |token: &TokenConfig| token.roles().contains(&"operator") && token.tenants().is_none();
        let own = config.token.iter().position(is_of_operator).filter(|_| http.local == LocalClients::Token);
        let token = own.and_then(|index| Some(config.token.get(index)?.secret(index))).transpose()?;
        Ok(Self { address, token })
    }

    /// Asks for a path, and returns the answer; of a longer one its first `bytes_max` bytes.
    ///
    /// # Errors
    /// As any connection, or no answer within `wait`.
    pub(crate) fn get(&self, path: &str, wait: Duration, bytes_max: usize) -> io::Result<Answer> {
        self.ask(&format!("GET {path}"), "", wait, bytes_max)
    }

    /// What a path answers.
    ///
    /// # Errors
    /// As [`RunningProcess::heard`] and [`RunningProcess::read`].
    pub(crate) fn json<T: DeserializeOwned>(&self, path: &str, wait: Duration, bytes_max: usize) -> Result<T, Unanswered> {
        self.read(path, &self.heard(path, wait, bytes_max)?)
    }

    /// An answer, whatever its status.
    ///
    /// # Errors
    /// There is none in time.
    pub(crate) fn heard(&self, path: &str, wait: Duration, bytes_max: usize) -> Result<Answer, Unanswered> {
        let at = |why: &str| format!("http://{}{path}: {why}", self.address);
        let answer = self.get(path, wait, bytes_max).map_err(|error| {
            let why = at(&self.nobody(&error));
            if is_stranger(&error) { Unanswered::Refused(why) } else { Unanswered::Away(why) }
        })?;
        // A process that ends while somebody waits says nothing more.
        let ended = || Unanswered::Away(at("the connection ended without an answer"));
        if answer.code.is_empty() { Err(ended()) } else { Ok(answer) }
    }

    /// Reads an answer to a path.
    ///
    /// # Errors
    /// Its status is no 200, or it has another form.
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &str, Answer { status, code, body }: &Answer) -> Result<T, Unanswered> {
        let at = |why: String| format!("http://{}{path}: {why}", self.address);
        if code == "200" {
            let read = serde_json::from_str(body);
            return read.map_err(|error| Unanswered::Refused(at(format!("no answer that can be understood: {error}"))));
        }
        let json: Option<Value> = serde_json::from_str(body).ok();
        let of = |name: &str| json.as_ref().and_then(|json| json.get(name)?.as_str());
        let hint = match of("error") {
            Some("not_found") => "; a guard knows no sessions: ask the process it belongs to",
            _ => way_in(code),
        };
        let message = at(of("message").map_or_else(|| format!("answered {status:?}{hint}"), |why| format!("{why}{hint}")));
        Err(if matches!(&**code, "429" | "503") { Unanswered::Away(message) } else { Unanswered::Refused(message) })
    }

    /// Sends a JSON text to a path, and returns the answer likewise.
    ///
    /// # Errors
    /// As [`RunningProcess::get`].
    pub(crate) fn post(&self, path: &str, json: &str, wait: Duration, bytes_max: usize) -> io::Result<Answer> {
        self.ask(&format!("POST {path}"), json, wait, bytes_max)
    }

    /// Asks for a path to be deleted, and returns the answer likewise.
    ///
    /// # Errors
    /// As [`RunningProcess::get`].
    pub(crate) fn delete(&self, path: &str, wait: Duration, bytes_max: usize) -> io::Result<Answer> {
        self.ask(&format!("DELETE {path}"), "", wait, bytes_max)
    }

    /// Nothing leaves, the token neither, before it is known who listens.
    fn ask(&self, asked: &str, body: &str, wait: Duration, bytes_max: usize) -> io::Result<Answer> {
        let address = self.address;
        let deadline = Deadline::after(wait);
        let left = || match deadline.left() {
            left if left.is_zero() => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")),
            left => Ok(left),
        };
        let mut stream = loopwarden_ask::connect(address, left()?)?;
        stream.set_write_timeout(Some(left()?))?;
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
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
        Ok(Answer::read(&String::from_utf8_lossy(&answer)))
    }

    /// Why nobody answers, and what to do.
    pub(crate) fn nobody(&self, error: &io::Error) -> String {
        if is_stranger(error) {
            return error.to_string();
        }
        let start = match self.address.to_string().as_str() {
            "127.0.0.1:9464" => "loopwarden run --data-dir ./lw".to_owned(),
            other => format!("loopwarden run --data-dir ./lw --set http.listen={other}"),
        };
        format!("{error}\n  no loopwarden answers there; start one: {start}\n  one that runs elsewhere: --address HOST:PORT")
    }
}

impl Answer {
    fn read(answer: &str) -> Self {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
        let status = head.lines().next().unwrap_or_default();
        let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
        Self { status: status.to_owned(), code: code.to_owned(), body: body.to_owned() }
    }
}

/// What follows the reason in a message about an answer of this code: the process says what a request needs, not what a command
/// is to be given for it.
pub(crate) fn way_in(code: &str) -> &'static str {
    if code == "401" { "; give --config, or --set http.token_file=FILE" } else { "" }
}

/// A part of a path: whatever is not plain is escaped.
pub(crate) fn path_part(text: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escaped).collect()
}
