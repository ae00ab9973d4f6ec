//! One plain request over a Unix socket or loopback TCP. The caller holds the deadline; here each wait has one besides.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::{io, os::unix::net::UnixStream, time::Duration};

use crate::{peer::Trusted, place::GuardEndpoint};

const CONNECT_WAIT: Duration = Duration::from_millis(50);
/// Longest answer that is read, head and body. Bytes. A message has a thousand characters.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// What a guard has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub body: Vec<u8>,
    /// It refuses for a stop that fails closed: where no guard answers any more, calls are to be refused for so long.
    pub refuse_for: Option<Duration>,
    /// It was decided with fresh verdicts. That a call may run is a release then, and else it is not.
    pub is_fresh: bool,
}

/// Header of such an answer. Milliseconds.
const REFUSE_FOR: &str = "loopwarden-refuse-for-ms";
/// Header of an answer that was decided with fresh verdicts.
const FRESH: &str = "loopwarden-fresh";
/// As long as a stop can be. Milliseconds.
const REFUSE_FOR_MS_MAX: u64 = 7 * 24 * 60 * 60 * 1_000;

/// Sends a JSON text, and returns the answer. Nothing leaves, the token neither, before it is known who listens.
pub(crate) fn post(place: &GuardEndpoint, path: &str, body: &[u8], wait: Duration) -> io::Result<Reply> {
    let token = place.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{token}Connection: close\r\n\r\n",
        body.len()
    );
    let mut request = head.into_bytes();
    request.extend_from_slice(body);
    match connect(place)? {
        Stream::Socket(stream) => {
            stream.set_read_timeout(Some(wait))?;
            stream.set_write_timeout(Some(wait))?;
            exchange(stream, &request)
        }
        Stream::Address(stream) => {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(wait))?;
            stream.set_write_timeout(Some(wait))?;
            exchange(stream, &request)
        }
    }
}

/// A connection to somebody who is known.
pub(crate) enum Stream {
    Socket(UnixStream),
    Address(TcpStream),
}

/// Connects, and looks who listens.
pub(crate) fn connect(place: &GuardEndpoint) -> io::Result<Stream> {
    let trusted = Trusted::new(place.uid);
    if let Some(path) = place.address.strip_prefix("unix:") {
        return trusted.socket(path).map(Stream::Socket);
    }
    let address: SocketAddr = place.address.parse().map_err(|_| invalid("the address is no IP address with a port"))?;
    if !address.ip().is_loopback() {
        return Err(invalid("the address is not on this host"));
    }
    trusted.address(address, CONNECT_WAIT).map(Stream::Address)
}

/// Whether the guard is well, and only this request was none.
pub fn is_of_the_request(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Reply> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    reply(&answer)
}

/// A whole answer with a status of 2xx. Half an answer is none: the rest might say something else.
fn reply(answer: &[u8]) -> io::Result<Reply> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").ok_or_else(|| invalid("no HTTP answer"))?;
    let (head, body) = answer.split_at(end);
    let body = body.get(4..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| invalid("no HTTP answer"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.split(' ').nth(1)).unwrap_or_default();
    if !status.starts_with('2') || status.len() != 3 {
        let kind = if matches!(status, "400" | "413") { io::ErrorKind::InvalidInput } else { io::ErrorKind::Other };
        return Err(io::Error::new(kind, format!("answered with status {status}")));
    }
    let header = |name: &str| {
        let mut pairs = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        pairs.find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let length = match (header("transfer-encoding"), header("content-length")) {
        (Some(_), _) => return Err(invalid("the answer comes in chunks")),
        (None, Some(length)) => length.parse().map_err(|_| invalid("the answer has no length"))?,
        (None, None) => body.len(),
    };
    let body = body.get(..length).ok_or_else(|| invalid("the answer is not whole"))?;
    let span_ms = header(REFUSE_FOR).and_then(|span_ms| span_ms.parse().ok()).filter(|span_ms| *span_ms > 0);
    Ok(Reply {
        body: body.to_vec(),
        refuse_for: span_ms.map(|span_ms: u64| Duration::from_millis(span_ms.min(REFUSE_FOR_MS_MAX))),
        is_fresh: header(FRESH) == Some("1"),
    })
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_of_success_counts() {
        let good = |answer: &str| reply(answer.as_bytes()).ok().map(|reply| String::from_utf8(reply.body).unwrap());
        assert_eq!(good("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").as_deref(), Some("{}"));
        assert_eq!(good("HTTP/1.1 200 OK\r\n\r\nrest").as_deref(), Some("rest"));
        assert_eq!(good("HTTP/1.1 204 No Content\r\n\r\n").as_deref(), Some(""));
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 403 No\r\n\r\n{\"decision\":\"deny\"}",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n{}",
            "SSH-2.0\r\n\r\n",
        ] {
            assert_eq!(good(bad), None, "{bad}");
        }
    }

    #[test]
    fn how_long_to_refuse_is_a_number_within_a_week() {
        let of = |header: &str| reply(format!("HTTP/1.1 200 OK\r\n{header}\r\n\r\n").as_bytes()).unwrap().refuse_for;
        assert_eq!(of("Loopwarden-Refuse-For-Ms: 1500"), Some(Duration::from_millis(1_500)));
        assert_eq!(of("loopwarden-refuse-for-ms: 99999999999999"), Some(Duration::from_millis(REFUSE_FOR_MS_MAX)));
        for none in ["X: 1", "loopwarden-refuse-for-ms: 0", "loopwarden-refuse-for-ms: -1", "loopwarden-refuse-for-ms: soon"] {
            assert_eq!(of(none), None, "{none}");
        }
        for (head, is_fresh) in [("Loopwarden-Fresh: 1", true), ("loopwarden-fresh: 0", false), ("X: loopwarden-fresh", false)] {
            assert_eq!(reply(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").as_bytes()).unwrap().is_fresh, is_fresh, "{head}");
        }
    }
}
