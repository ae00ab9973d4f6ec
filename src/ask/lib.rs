//! How a small program on an agent's side asks the guard: where it is, who listens there, how long to wait, one request.
//!
//! Nearly the standard library alone: `loopwarden-hook` starts at every call of an agent, in about a millisecond.

#[cfg(target_os = "linux")]
mod listeners;
mod peer;
mod place;
mod post;
pub mod table;

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, sync::mpsc::sync_channel, time::Duration};

pub use peer::is_stranger;
pub use place::{CONFIG_FOLDER, GuardEndpoint, STATE_FOLDER, path_variable, user_folder};
pub use post::{Reply, is_of_the_request};

/// From question to answer, unless [`WAIT_VARIABLE`] says otherwise.
const TOTAL_WAIT: Duration = Duration::from_millis(150);
/// The longest such wait: more helps nobody, agents give up on their own after five seconds.
const TOTAL_WAIT_MAX_MS: u64 = 10_000;
/// Variable for the wait. Milliseconds.
const WAIT_VARIABLE: &str = "LOOPWARDEN_HOOK_WAIT_MS";

/// Requests that nobody waits for any more, and the open ones. A guard that stands still must not collect threads here.
const OPEN_MAX: usize = 16;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// What a caller waits for an answer, everything included. Zero: it asks nobody.
pub fn wait() -> Duration {
    let ms = std::env::var(WAIT_VARIABLE).ok().and_then(|ms| ms.parse::<u64>().ok());
    ms.map_or(TOTAL_WAIT, |ms| Duration::from_millis(ms.min(TOTAL_WAIT_MAX_MS)))
}

/// Connects to an address; on this host to nobody but who is known: this user, root, or the user of [`GuardEndpoint::uid`]. Only Linux says
/// who listens at an address.
///
/// # Errors
/// Nobody listens, or a stranger ([`is_stranger`]).
pub fn connect(server: SocketAddr, wait: Duration) -> io::Result<TcpStream> {
    if cfg!(target_os = "linux") {
        peer::Trusted::new(GuardEndpoint::find().uid).address(server, wait)
    } else {
        TcpStream::connect_timeout(&server, wait)
    }
}

/// Posts a JSON text that is made or read meanwhile, and returns the answer. Never takes longer than `wait`.
///
/// # Errors
/// Nobody answers in time, the answer is no success, or a stranger listens there ([`is_stranger`]): then nothing was sent.
pub fn post(
    place: GuardEndpoint,
    path: String,
    body: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
    wait: Duration,
) -> io::Result<Reply> {
    if OPEN.fetch_add(1, Ordering::AcqRel) >= OPEN_MAX {
        OPEN.fetch_sub(1, Ordering::AcqRel);
        return Err(io::Error::new(io::ErrorKind::WouldBlock, "too many questions are open"));
    }
    let (tell, told) = sync_channel(1);
    // Connecting to a socket file, and reading a standard input, have no deadline of their own.
    let asking = std::thread::Builder::new().name("ask".to_owned()).spawn(move || {
        let _ = tell.send(body().and_then(|body| post::post(&place, &path, &body, wait)));
        OPEN.fetch_sub(1, Ordering::AcqRel);
    });
    if let Err(error) = asking {
        OPEN.fetch_sub(1, Ordering::AcqRel);
        return Err(error);
    }
    told.recv_timeout(wait).unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")))
}
