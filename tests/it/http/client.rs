//! A client that knows no more HTTP than a socket and a few lines of text.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::{net::TcpStream, time::Duration};

use serde_json::Value;

/// Far more than any answer takes: a test that waits for so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: String,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub(crate) fn post(&self, path: &str, media: &str, body: &[u8]) -> Answer {
        self.send("POST", path, &[("content-type", media)], body)
    }

    /// One request on a connection of its own; `host` among the headers replaces the usual one.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head = format!("{head}host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head = format!("{head}{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let mut stream = self.connect();
        let _ = stream.write_all(head.as_bytes());
        // A server that refuses by the head alone may hang up on a large body.
        let _ = stream.write_all(body);
        read_answer(stream)
    }

    /// An answer that has no end known beforehand, in one piece: the old version of the protocol knows no chunks.
    pub(crate) fn whole(&self, path: &str, authorization: Option<&str>) -> Answer {
        let shown = authorization.map_or_else(String::new, |shown| format!("authorization: {shown}\r\n"));
        self.raw(format!("GET {path} HTTP/1.0\r\nhost: localhost\r\n{shown}\r\n").as_bytes()).expect("an answer")
    }

    /// Bytes as they are; nothing comes back from a connection that is cut.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Option<Answer> {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        (!text.is_empty()).then(|| parse(&text))
    }

    /// Opens the stream of commands.
    pub(crate) fn follow(&self, query: &str, last: Option<&str>) -> Follower {
        self.follow_as(query, last, None)
    }

    /// The same with what shows who asks.
    pub(crate) fn follow_as(&self, query: &str, last: Option<&str>, authorization: Option<&str>) -> Follower {
        let mut stream = self.connect();
        let last = last.map_or_else(String::new, |last| format!("last-event-id: {last}\r\n"));
        let shown = authorization.map_or_else(String::new, |shown| format!("authorization: {shown}\r\n"));
        let head = format!("GET /v1/commands?{query} HTTP/1.1\r\nhost: {}\r\naccept: text/event-stream", self.address);
        let request = format!("{head}\r\n{last}{shown}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut follower = Follower { lines: BufReader::new(stream) };
        assert_eq!(follower.line().as_deref(), Some("HTTP/1.1 200 OK"));
        follower
    }
}

fn read_answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // Cut after the answer where the body was not read: what came counts.
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

pub(crate) fn parse(bytes: &[u8]) -> Answer {
    let all = String::from_utf8_lossy(bytes);
    let (head, text) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {all:?}"));
    Answer { status, head: head.to_owned(), text: text.to_owned() }
}

/// A stream of server-sent events.
pub(crate) struct Follower {
    lines: BufReader<TcpStream>,
}

impl Follower {
    /// The next line; none at the end.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Id and text of the next command. Chunk sizes, comments and other fields are lines of their own, and skipped.
    pub(crate) fn command(&mut self) -> Option<(String, Value)> {
        let (mut id, mut data) = (None, None);
        while id.is_none() || data.is_none() {
            let line = self.line()?;
            if let Some(found) = line.strip_prefix("id: ") {
                id = Some(found.to_owned());
            } else if let Some(found) = line.strip_prefix("data: ") {
                data = serde_json::from_str(found).ok();
            }
        }
        id.zip(data)
    }
}
