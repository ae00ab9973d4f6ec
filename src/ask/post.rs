//! One plain request over a Unix socket or loopback TCP. The caller holds the deadline; here each wait has one besides.

use std::io;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::peer::Trusted;
use crate::place::GuardEndpoint;

const CONNECT_WAIT: Duration = Duration::from_millis(50);
/// Longest answer that is read, head and body. Bytes. A message has a thousand characters.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Sends a JSON text, and returns the body of the answer. Nothing leaves, the token neither, before it is known who listens.
pub(crate) fn post(place: &GuardEndpoint, path: &str, body: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
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

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    body(&answer).map(<[u8]>::to_vec)
}

/// The body of a whole answer with a status of 2xx. Half an answer is none: the rest might say something else.
fn body(answer: &[u8]) -> io::Result<&[u8]> {
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
    body.get(..length).ok_or_else(|| invalid("the answer is not whole"))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn only_a_whole_answer_of_success_counts() {
        let good = |answer: &str| body(answer.as_bytes()).ok().map(|body| String::from_utf8(body.to_vec()).unwrap());
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
}
