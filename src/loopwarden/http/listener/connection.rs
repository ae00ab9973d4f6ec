//! Connections that cannot be held for ever: so many at once, so long for a head, so long without taking an answer.
//!
//! The gate tells a connection when a request is being answered; whatever is read outside of that is a head, and has a deadline.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::{io, pin::Pin, time::Duration};

use axum::{extract::connect_info::Connected, serve::IncomingStream};
use loopwarden_core::limits;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::http::listener::endpoint::{Accepted, Endpoint, Ends, Socket, Stream};
use crate::http::listener::peer;
use crate::http::listener::phase::{Answering, Phase};
use crate::http::listener::seats::{Room, Seat, Seats};

/// Pause when the operating system has no connection to give: out of descriptors, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections, as long as there is a place for one more.
pub(crate) struct Listener {
    socket: Socket,
    seats: Arc<Seats>,
}

impl Listener {
    /// Binds, and names the endpoint with the port that it got.
    pub(crate) async fn bind(endpoint: &Endpoint) -> io::Result<(Self, Endpoint)> {
        let (socket, bound) = Socket::bind(endpoint).await?;
        Ok((Self { socket, seats: Seats::new() }, bound))
    }
}

impl axum::serve::Listener for Listener {
    type Io = Connection;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let Ok(Accepted { stream, remote, ends }) = self.socket.accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let ip = remote.map_or(Ipv4Addr::LOCALHOST.into(), |remote| remote.ip().to_canonical());
            let phase = Arc::default();
            // Who finds no place is sent away, and holds up nobody who comes after.
            let Some(seat) = self.seats.take(ip, &phase) else { continue };
            let room = seat.room();
            let peer = Peer { ip, is_by_file: remote.is_none(), ends, user: Arc::default(), phase, room };
            return (Connection::new(stream, peer, seat, Waits::LIMITS), ());
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

/// The other end, as the gate sees it.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Who comes by a socket file is on this host.
    pub(crate) ip: IpAddr,
    /// By a socket file: who may open that is known to the operating system.
    pub(crate) is_by_file: bool,
    ends: Option<Ends>,
    /// Asked for at most once in a connection.
    user: Arc<OnceLock<Option<u32>>>,
    phase: Arc<Phase>,
    room: Room,
}

impl Peer {
    /// A request has begun to be answered. Ends with the last clone of what is returned.
    pub(crate) fn answering(&self) -> Answering {
        self.phase.answering()
    }

    /// Whether others may soon find no place.
    pub(crate) fn is_crowded(&self) -> bool {
        self.room.is_crowded()
    }

    /// The user whose program is at the other end, on this host; none where that cannot be known.
    pub(crate) fn user(&self) -> Option<u32> {
        *self.user.get_or_init(|| self.ends.and_then(|(remote, local)| peer::user_of(remote, local)))
    }
}

impl Connected<IncomingStream<'_, Listener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Listener>) -> Self {
        stream.io().peer.clone()
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

impl Waits {
    const LIMITS: Self = Self { head: limits::HTTP_HEAD_WAIT, write: limits::HTTP_WRITE_WAIT };
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

/// A connection with its deadlines and its place.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    peer: Peer,
    head: Head,
    /// Running while the other end takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    waits: Waits,
    seat: Seat,
}

impl Connection {
    fn new(stream: Box<dyn Stream>, peer: Peer, seat: Seat, waits: Waits) -> Self {
        let head = Head::new(0, waits.head);
        Self { stream, peer, head, stalled: None, waits, seat }
    }

    /// Whether the head that is being read has had its time or its bytes. Registers for the deadline.
    fn head_is_over(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        let number = self.peer.phase.number();
        if Phase::is_of_answer(number) {
            return None;
        }
        if self.seat.is_lost(cx) {
            return Some(displaced());
        }
        // An answer may be complete here and not yet there. Who takes none of it has a deadline of its own.
        if self.stalled.is_some() {
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
        if !self.peer.phase.is_answering() && self.seat.is_lost(cx) {
            return Poll::Ready(Err(displaced()));
        }
        let wait = self.waits.write;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(wait)));
        if stalled.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing")));
        }
        Poll::Pending
    }
}

fn displaced() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "others need the place")
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

    use tokio::{net::TcpListener, time::timeout};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    async fn accepted(listener: &TcpListener, waits: Waits) -> Connection {
        let (ip, phase) = (Ipv4Addr::LOCALHOST.into(), Arc::default());
        let seat = Seats::new().take(ip, &phase).unwrap();
        let peer = Peer { ip, is_by_file: false, ends: None, user: Arc::default(), phase, room: seat.room() };
        Connection::new(Box::new(listener.accept().await.unwrap().0), peer, seat, waits)
    }

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
        let mut connection = accepted(&listener, Waits { head: SOON, write: Duration::from_secs(600) }).await;
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
        let mut connection = accepted(&listener, Waits::LIMITS).await;
        let whole = text.to_vec();
        let writer = std::thread::spawn(move || client.write_all(&whole).map(|()| client));
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
