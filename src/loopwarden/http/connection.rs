//! Connections that cannot be held for ever: so many at once, so long for a head, so long without taking an answer.
//!
//! The gate tells a connection when a request is being answered; whatever is read outside of that is a head, and has a deadline.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use loopwarden_core::limits;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::descriptors;

/// Pause when the operating system has no connection to give: out of descriptors, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections, as long as there is a slot for one more.
pub(super) struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    slots: Arc<Semaphore>,
}

impl Listener {
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { tcp: listener, address, slots: Arc::new(Semaphore::new(descriptors::connections_max())) })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else { continue };
            match self.tcp.accept().await {
                Ok((stream, address)) => {
                    // Small answers should leave at once; where that cannot be set they leave a little later.
                    let _ = stream.set_nodelay(true);
                    return (Connection::new(stream, slot), address);
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

/// Whether a connection is answering: odd while it does; each request adds two.
#[derive(Debug, Default)]
struct Phase(AtomicU64);

impl Phase {
    fn is_answering(number: u64) -> bool {
        number % 2 == 1
    }
}

/// The other end, as the gate sees it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) ip: IpAddr,
    phase: Arc<Phase>,
    slots: Arc<Semaphore>,
}

impl Peer {
    /// A request has begun to be answered. Ends with the last clone of what is returned.
    pub(super) fn answering(&self) -> Answering {
        self.phase.0.fetch_or(1, Ordering::AcqRel);
        Answering(Arc::new(Ended(Arc::clone(&self.phase))))
    }

    /// Whether others may soon find no place.
    pub(super) fn is_crowded(&self) -> bool {
        self.slots.available_permits() < limits::HTTP_CONNECTIONS_SPARE
    }
}

/// A request is being answered as long as one of these exists. A stream keeps one.
#[derive(Debug, Clone)]
pub(super) struct Answering(#[expect(dead_code, reason = "lives to be dropped")] Arc<Ended>);

#[derive(Debug)]
struct Ended(Arc<Phase>);

impl Drop for Ended {
    fn drop(&mut self) {
        // One request at a time on a connection: odd becomes the next even number.
        let _ = self
            .0
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |number| Phase::is_answering(number).then_some(number + 1));
    }
}

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        let connection = stream.io();
        let slots = Arc::clone(connection.slot.semaphore());
        Self { ip: stream.remote_addr().ip().to_canonical(), phase: Arc::clone(&connection.phase), slots }
    }
}

/// How long a connection waits for the other end.
#[derive(Debug, Clone, Copy)]
struct Waits {
    /// For a complete head.
    head: Duration,
    /// For some of an answer to be taken.
    write: Duration,
}

/// The head that is being read.
struct Head {
    /// Its number in [`Phase`].
    number: u64,
    /// Bytes so far.
    bytes: usize,
    /// How much of its end has been seen, the empty line; four bytes are all of it.
    end: u8,
    deadline: Pin<Box<Sleep>>,
}

impl Head {
    fn new(number: u64, wait: Duration) -> Self {
        Self { number, bytes: 0, end: 0, deadline: Box::pin(sleep(wait)) }
    }

    /// Counts what was read. What comes behind the end is of the body, which has a bound of its own: one read may bring both.
    fn note(&mut self, read: &[u8]) {
        for byte in read {
            if self.end == 4 {
                return;
            }
            self.bytes = self.bytes.saturating_add(1);
            self.end = match (self.end, byte) {
                (0 | 2, b'\r') | (1 | 3, b'\n') => self.end + 1,
                (_, b'\r') => 1,
                _ => 0,
            };
        }
    }
}

/// A connection with its deadlines and its slot.
pub(super) struct Connection {
    stream: TcpStream,
    phase: Arc<Phase>,
    head: Head,
    /// Running while the other end takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    waits: Waits,
    slot: OwnedSemaphorePermit,
}

impl Connection {
    fn new(stream: TcpStream, slot: OwnedSemaphorePermit) -> Self {
        Self::with_waits(stream, slot, Waits { head: limits::HTTP_HEAD_WAIT, write: limits::HTTP_WRITE_WAIT })
    }

    fn with_waits(stream: TcpStream, slot: OwnedSemaphorePermit, waits: Waits) -> Self {
        let head = Head::new(0, waits.head);
        Self { stream, phase: Arc::default(), head, stalled: None, waits, slot }
    }

    /// Whether the head that is being read has had its time or its bytes. Registers for the deadline.
    fn head_is_over(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        let number = self.phase.0.load(Ordering::Acquire);
        // An answer may be complete here and not yet there. Who takes none of it has a deadline of its own.
        if Phase::is_answering(number) || self.stalled.is_some() {
            return None;
        }
        if number != self.head.number {
            self.head = Head::new(number, self.waits.head);
        }
        if self.head.bytes > limits::HTTP_HEAD_BYTES_CUT {
            return Some(io::Error::new(io::ErrorKind::InvalidData, "the head is too large"));
        }
        self.head
            .deadline
            .as_mut()
            .poll(cx)
            .is_ready()
            .then(|| io::Error::new(io::ErrorKind::TimedOut, "no complete head in time"))
    }

    /// Counts how long the other end takes nothing.
    fn note_write<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if self.stalled.take().is_some() {
                // The next head is awaited from when the answer before it was taken.
                self.head.deadline = Box::pin(sleep(self.waits.head));
            }
            return polled;
        }
        let wait = self.waits.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(wait)));
        if stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing")));
        }
        Poll::Pending
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.head_is_over(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.head.note(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_write(cx, polled)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note_write(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.note_write(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{ErrorKind, Read as _, Write as _};

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    async fn write(connection: &mut Connection, bytes: &[u8]) -> usize {
        poll_fn(|cx| Pin::new(&mut *connection).poll_write(cx, bytes)).await.unwrap()
    }

    async fn read(connection: &mut Connection) -> io::Result<()> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        poll_fn(|cx| Pin::new(&mut *connection).poll_read(cx, &mut buffer)).await
    }

    #[tokio::test]
    async fn an_answer_that_is_taken_slowly_is_not_cut_by_the_deadline_of_the_next_head() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let slot = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let waits = Waits { head: SOON, write: Duration::from_secs(600) };
        let mut connection = Connection::with_waits(listener.accept().await.unwrap().0, slot, waits);
        // More than all buffers on the way hold.
        let mut rest = &*vec![b'x'; 64 << 20];
        let whole = rest.len();
        while let Ok(taken) = timeout(SOON, write(&mut connection, rest)).await {
            rest = &rest[taken..];
        }
        assert!(!rest.is_empty());
        assert!(timeout(5 * SOON, read(&mut connection)).await.is_err(), "cut amid an answer");
        let reader = std::thread::spawn(move || client.read_to_end(&mut Vec::new()));
        while !rest.is_empty() {
            rest = &rest[write(&mut connection, rest).await..];
        }
        // Then the next head is waited for, as long as for any.
        assert_eq!(read(&mut connection).await.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(reader.join().unwrap().unwrap(), whole);
    }

    /// Reads what a client sends at once, in large pieces, until an error or as much as there is.
    async fn read_all(text: &[u8]) -> io::Result<usize> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let slot = Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap();
        let mut connection = Connection::new(listener.accept().await.unwrap().0, slot);
        let sent = text.to_vec();
        let writer = std::thread::spawn(move || client.write_all(&sent).map(|()| client));
        let mut bytes = vec![0; 64 << 10];
        let mut all = 0;
        while all < text.len() {
            let mut buffer = ReadBuf::new(&mut bytes);
            poll_fn(|cx| Pin::new(&mut connection).poll_read(cx, &mut buffer)).await?;
            all += buffer.filled().len();
        }
        drop(writer.join().unwrap());
        Ok(all)
    }

    #[tokio::test]
    async fn a_body_that_comes_with_its_head_does_not_count_as_head() {
        let body = vec![b'x'; 4 * limits::HTTP_HEAD_BYTES_CUT];
        let whole = [b"POST / HTTP/1.1\r\nhost: a\r\n\r\n".as_slice(), &body].concat();
        assert_eq!(read_all(&whole).await.unwrap(), whole.len());
        let endless = [b"POST / HTTP/1.1\r\nhost: ".as_slice(), &body].concat();
        assert_eq!(read_all(&endless).await.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
