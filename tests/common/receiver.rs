//! A receiver of webhooks, which keeps what it is sent and answers as a test wants it: also not at all, for ever, or one byte at a time.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::{thread, time::Duration};

use loopwarden::clock::Deadline;
use native_tls::TlsAcceptor;
use serde_json::Value;

/// Far more than any delivery takes: a test that waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    /// Names in small letters.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether it was answered with 2xx.
    pub(crate) is_taken: bool,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn id(&self) -> String {
        self.header("ce-id").map(str::to_owned).unwrap_or_else(|| self.json()["id"].as_str().unwrap_or_default().to_owned())
    }
}

/// What it does with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A status, and lines of the head.
    Status(u16, &'static str),
    /// A status, and a text.
    Body(u16, &'static str),
    /// It closes the connection.
    HangsUp,
    /// It says nothing, and waits until the other side goes.
    Silent,
    /// 200, and a body without an end.
    EndlessBody,
    /// A head without an end, a byte at a time.
    SlowHead,
}

pub(crate) const TAKES: Reply = Reply::Status(204, "");

type Mood = Box<dyn FnMut(&Request, usize) -> Reply + Send>;

struct Shared {
    mood: Mutex<Mood>,
    seen: Mutex<Vec<Request>>,
    came: Condvar,
}

/// A receiver; it lives as long as the test.
pub(crate) struct Receiver {
    pub(crate) address: String,
    shared: Arc<Shared>,
}

impl Receiver {
    /// Answers by the request and its number.
    pub(crate) fn start(mood: impl FnMut(&Request, usize) -> Reply + Send + 'static) -> Self {
        Self::serve(mood, Some)
    }

    /// The same over TLS.
    pub(crate) fn encrypted(tls: TlsAcceptor, mood: impl FnMut(&Request, usize) -> Reply + Send + 'static) -> Self {
        Self::serve(mood, move |stream| tls.accept(stream).ok())
    }

    fn serve<S: Read + Write>(
        mood: impl FnMut(&Request, usize) -> Reply + Send + 'static,
        open: impl Fn(TcpStream) -> Option<S> + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared { mood: Mutex::new(Box::new(mood)), seen: Mutex::default(), came: Condvar::new() });
        let answering = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (shared, open) = (Arc::clone(&answering), open.clone());
                // Who hangs up in the middle is no business of the test, nor who does not trust it.
                thread::spawn(move || open(stream).map(|stream| shared.answer(stream)));
            }
        });
        Self { address, shared }
    }

    /// From now on it answers otherwise.
    pub(crate) fn turn(&self, mood: impl FnMut(&Request, usize) -> Reply + Send + 'static) {
        *self.shared.mood.lock().unwrap() = Box::new(mood);
    }

    pub(crate) fn seen(&self) -> Vec<Request> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Waits until what was seen is so.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let deadline = Deadline::after(PATIENCE);
        let mut seen: MutexGuard<'_, Vec<Request>> = self.shared.seen.lock().unwrap();
        while !is_so(&seen) {
            assert!(
                !deadline.is_over(),
                "{what}: {:?}",
                seen.iter().map(|request| (request.id(), request.is_taken)).collect::<Vec<_>>()
            );
            seen = self.shared.came.wait_timeout(seen, deadline.left()).unwrap().0;
        }
        seen.clone()
    }
}

/// Ids in the order in which they were first taken.
pub(crate) fn taken(seen: &[Request]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for request in seen.iter().filter(|request| request.is_taken) {
        if !ids.contains(&request.id()) {
            ids.push(request.id());
        }
    }
    ids
}

impl Shared {
    fn answer(&self, stream: impl Read + Write) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let pair = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let headers: Vec<(String, String)> = lines.iter().skip(1).filter_map(pair).collect();
        let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut request = Request { line: lines[0].clone(), headers, body, is_taken: false };
        let mut stream = reader.into_inner();
        // One at a time: the number of a request is its place among those that were seen.
        let mut seen = self.seen.lock().unwrap();
        let mut mood = self.mood.lock().unwrap();
        let reply = (*mood)(&request, seen.len());
        drop(mood);
        request.is_taken = matches!(reply, Reply::Status(200..=299, _) | Reply::EndlessBody);
        seen.push(request);
        drop(seen);
        self.came.notify_all();
        match reply {
            Reply::Status(status, more) => {
                write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n")
            }
            Reply::Body(status, text) => {
                write!(stream, "HTTP/1.1 {status} Said\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}", text.len())
            }
            Reply::HangsUp => Ok(()),
            Reply::Silent => stream.read(&mut [0]).map(drop),
            Reply::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
                loop {
                    stream.write_all(&chunk)?;
                }
            }
            Reply::SlowHead => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ")?;
                loop {
                    stream.write_all(b"x")?;
                    thread::park_timeout(Duration::from_millis(20));
                }
            }
        }
    }
}
