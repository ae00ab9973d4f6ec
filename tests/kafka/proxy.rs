//! A proxy that knows enough of Kafka's protocol to lose one kind of request or answer of one client.
//!
//! Frames are length, then for requests: API key, version, correlation id, client id. Answers carry the correlation id only, so each
//! connection remembers what it asked. Rules name a client, an API and a direction; the first that fits decides.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::{io, thread};

use loopwarden::clock::Deadline;

use crate::world::PATIENCE;

/// Where a partition begins or ends.
pub(crate) const LIST_OFFSETS: i16 = 2;
/// Asks for a place in a group.
pub(crate) const JOIN_GROUP: i16 = 11;
/// Who is in a group begins with it.
pub(crate) const LIST_GROUPS: i16 = 16;
/// Takes over a transactional id.
pub(crate) const INIT_PRODUCER_ID: i16 = 22;
/// Joins a transaction's end.
pub(crate) const END_TXN: i16 = 26;
/// Joins offsets to a transaction.
pub(crate) const TXN_OFFSET_COMMIT: i16 = 28;

/// All that a member under the consumer protocol says to its group.
pub(crate) const CONSUMER_GROUP_HEARTBEAT: i16 = 68;

/// Longest frame that is believed.
const FRAME_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// From the client.
    Request,
    /// To the client.
    Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// The frame vanishes; the connection stays.
    Drop,
    /// The connection ends instead.
    Cut,
    /// The frame, and what follows it in its direction, waits for [`Proxy::release`].
    Hold,
}

#[derive(Debug)]
struct Rule {
    client: String,
    api: i16,
    side: Side,
    action: Action,
    /// How many more frames it takes.
    left: usize,
    hits: usize,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
}

/// A running proxy. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<(Mutex<State>, Condvar)>,
    upstream: Arc<Mutex<Option<String>>>,
}

struct Connection {
    proxy: Proxy,
    /// What was asked, by correlation id: API and client.
    asked: Mutex<BTreeMap<i32, (i16, String)>>,
    client: TcpStream,
    broker: TcpStream,
}

impl Proxy {
    /// Listens; clients are refused until [`Proxy::serve`].
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let proxy = Self { port, shared: Arc::default(), upstream: Arc::default() };
        let acceptor = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A broker that is not up yet refuses; the client comes again.
                let _ = acceptor.connect(client);
            }
        });
        proxy
    }

    /// Where frames go.
    pub(crate) fn serve(&self, upstream: &str) {
        *self.upstream.lock().expect("not poisoned") = Some(upstream.to_owned());
    }

    /// The next `times` frames of this API and direction, of clients whose id begins so, suffer this.
    pub(crate) fn arm(&self, client: &str, api: i16, side: Side, action: Action, times: usize) {
        let rule = Rule { client: client.to_owned(), api, side, action, left: times, hits: 0 };
        self.shared.0.lock().expect("not poisoned").rules.push(rule);
    }

    /// Ends all rules about a client, and says how many frames they took. What was held goes on.
    pub(crate) fn release(&self, client: &str) -> usize {
        let mut state = self.shared.0.lock().expect("not poisoned");
        let hits = state.rules.iter().filter(|rule| rule.client == client).map(|rule| rule.hits).sum();
        state.rules.retain(|rule| rule.client != client);
        self.shared.1.notify_all();
        hits
    }

    /// How many frames of a client the rules have taken.
    pub(crate) fn taken(&self, client: &str) -> usize {
        let state = self.shared.0.lock().expect("not poisoned");
        state.rules.iter().filter(|rule| rule.client == client).map(|rule| rule.hits).sum()
    }

    fn connect(&self, client: TcpStream) -> io::Result<()> {
        let Some(upstream) = self.upstream.lock().expect("not poisoned").clone() else { return Ok(()) };
        let broker = TcpStream::connect(upstream)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let connection = Arc::new(Connection { proxy: self.clone(), asked: Mutex::default(), client, broker });
        for side in [Side::Request, Side::Answer] {
            let connection = Arc::clone(&connection);
            thread::spawn(move || {
                let _ = connection.pump(side);
                connection.end(side);
            });
        }
        Ok(())
    }

    /// What becomes of a frame.
    fn judge(&self, api: i16, client: &str, side: Side) -> Option<Action> {
        let mut state = self.shared.0.lock().expect("not poisoned");
        let rule = state
            .rules
            .iter_mut()
            .find(|rule| rule.left > 0 && rule.api == api && rule.side == side && client.starts_with(&rule.client))?;
        rule.left -= 1;
        rule.hits += 1;
        Some(rule.action)
    }

    /// Waits until no rule holds frames of this kind any more.
    fn wait_for_release(&self, api: i16, client: &str, side: Side) {
        let deadline = Deadline::after(PATIENCE);
        let mut state = self.shared.0.lock().expect("not poisoned");
        let holds = |state: &State| {
            state.rules.iter().any(|rule| {
                rule.action == Action::Hold && rule.api == api && rule.side == side && client.starts_with(&rule.client)
            })
        };
        while holds(&state) && !deadline.is_over() {
            state = self.shared.1.wait_timeout(state, deadline.left()).expect("not poisoned").0;
        }
    }
}

impl Connection {
    /// Copies frames of one direction until a stream ends or a rule cuts.
    fn pump(&self, side: Side) -> io::Result<()> {
        let (mut from, mut to) = match side {
            Side::Request => (&self.client, &self.broker),
            Side::Answer => (&self.broker, &self.client),
        };
        loop {
            let mut length = [0; 4];
            from.read_exact(&mut length)?;
            let bytes = u32::from_be_bytes(length) as usize;
            if bytes > FRAME_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut frame = vec![0; bytes];
            from.read_exact(&mut frame)?;
            if let Some((api, client)) = self.identify(&frame, side) {
                match self.proxy.judge(api, &client, side) {
                    Some(Action::Drop) => continue,
                    Some(Action::Cut) => return Err(io::ErrorKind::ConnectionReset.into()),
                    Some(Action::Hold) => self.proxy.wait_for_release(api, &client, side),
                    None => {}
                }
            }
            to.write_all(&length)?;
            to.write_all(&frame)?;
        }
    }

    fn identify(&self, frame: &[u8], side: Side) -> Option<(i16, String)> {
        let mut asked = self.asked.lock().expect("not poisoned");
        match side {
            Side::Request => {
                let api = i16::from_be_bytes(frame.get(0..2)?.try_into().ok()?);
                let correlation = i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?);
                let length = i16::from_be_bytes(frame.get(8..10)?.try_into().ok()?);
                let client = usize::try_from(length).ok().and_then(|length| frame.get(10..10 + length)).unwrap_or_default();
                let client = String::from_utf8_lossy(client).into_owned();
                asked.insert(correlation, (api, client.clone()));
                Some((api, client))
            }
            Side::Answer => asked.remove(&i32::from_be_bytes(frame.get(0..4)?.try_into().ok()?)),
        }
    }

    /// One direction is over. A client that has gone takes nothing back that is still on its way to the broker.
    fn end(&self, side: Side) {
        match side {
            Side::Request => {
                let _ = self.broker.shutdown(Shutdown::Both);
                let _ = self.client.shutdown(Shutdown::Both);
            }
            Side::Answer => {
                let _ = self.client.shutdown(Shutdown::Both);
                let _ = self.broker.shutdown(Shutdown::Read);
            }
        }
    }
}
