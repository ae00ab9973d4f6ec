//! Verdicts and events by HTTP: from and to a process with a log of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use loopwarden_core::limits::{HTTP_COMMANDS_BYTES, HTTP_COMMANDS_MAX};
use loopwarden_guard::{Options, Record, Source};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::ask;
use crate::cli::guard::works::Works;
use crate::exit_code;
use crate::failure::Failure;
use crate::http::check::Desk;

/// One wait for commands: an answer without any is a sign of life.
const POLL: &str = "4s";
/// Wait for such an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(8);
/// Before another try.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest answer. Bytes: a slice of commands, and one of any size besides.
const ANSWER_BYTES_MAX: usize = 4 * HTTP_COMMANDS_BYTES;
/// Events that wait to be sent.
const QUEUE_MAX: usize = 20_000;
/// Bytes of them.
const QUEUE_BYTES_MAX: usize = 32 << 20;
/// Bytes of one request, and one event besides.
const REQUEST_BYTES: usize = 1 << 20;
/// How long an event waits for company.
const LINGER: Duration = Duration::from_millis(50);

/// The process that is asked.
#[derive(Clone)]
struct Upstream {
    address: SocketAddr,
    token: Option<Arc<str>>,
    stop: Arc<AtomicBool>,
}

/// An answer of `GET /v1/commands`.
#[derive(Deserialize)]
struct Slice<'a> {
    #[serde(borrow)]
    commands: Vec<&'a RawValue>,
    next: String,
}

/// Starts to follow. A process that is away is no failure: calls run until it comes.
pub(super) fn start(url: &str, token: Option<String>, options: Options, stop: &Arc<AtomicBool>) -> Result<Works, Failure> {
    let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')).filter(|host| !host.contains('/'));
    let host =
        host.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: --upstream {url:?} is not http://HOST:PORT")))?;
    let upstream = Upstream { address: ask::resolve(host)?, token: token.map(Into::into), stop: Arc::clone(stop) };
    let (sender, receiver) = sync_channel::<String>(QUEUE_MAX);
    let queued = Arc::new(AtomicUsize::new(0));
    let (delivered, lost) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let room = Arc::clone(&queued);
    let send = Box::new(move |record: &Record| {
        let bytes = record.event.len();
        if room.fetch_add(bytes, Ordering::AcqRel) + bytes > QUEUE_BYTES_MAX || sender.try_send(one_line(&record.event)).is_err()
        {
            room.fetch_sub(bytes, Ordering::AcqRel);
            return false;
        }
        true
    });
    let desk = Arc::new(Desk::beside(options, Source::Upstream, send));
    let (source, told) = (upstream.clone(), Arc::clone(&desk));
    let follow = std::thread::Builder::new().name("follower".to_owned()).spawn(move || source.follow(&told))?;
    let counts = (Arc::clone(&delivered), Arc::clone(&lost));
    let forward =
        std::thread::Builder::new().name("events".to_owned()).spawn(move || upstream.forward(&receiver, &queued, &counts))?;
    let deliveries = Box::new(move || (delivered.load(Ordering::Relaxed), lost.load(Ordering::Relaxed)));
    Ok(Works { desk, threads: vec![follow, forward], deliveries, place: url.to_owned() })
}

/// An event on one line: line ends in JSON stand between values only, where a space does as well.
fn one_line(event: &str) -> String {
    event.replace(['\r', '\n'], " ")
}

impl Upstream {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Follows the commands from the oldest that is kept: what has expired means nothing, what has not is in force.
    fn follow(&self, desk: &Desk) {
        let mut after = "0".to_owned();
        while !self.is_stopping() {
            match self.poll(&after, desk) {
                Ok(next) => after = next,
                Err(why) => {
                    tracing::warn!(why, "commands cannot be followed; calls run without fresh verdicts");
                    std::thread::park_timeout(PAUSE);
                }
            }
        }
    }

    fn poll(&self, after: &str, desk: &Desk) -> Result<String, String> {
        let path = format!("/v1/commands?wait={POLL}&after={after}");
        let answer = ask::get(self.address, &path, self.token.as_deref(), ANSWER_WAIT, ANSWER_BYTES_MAX);
        let answer = answer.map_err(|error| error.to_string())?;
        let (status, code, body) = ask::parts(&answer);
        match code {
            "200" => {}
            // The log was begun anew: nothing of the old one holds.
            "410" => {
                desk.feed(|guard, _| guard.forget_verdicts());
                return Ok("0".to_owned());
            }
            _ => return Err(format!("answered {status:?}")),
        }
        let slice: Slice<'_> = serde_json::from_str(body).map_err(|error| format!("no list of commands: {error}"))?;
        for command in &slice.commands {
            // One at a time: checks come in between.
            desk.feed(|guard, now| guard.command(command.get().as_bytes(), now));
        }
        // A position is a number; whatever else it were would stand in an address.
        let next = Some(slice.next).filter(|next| !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit()));
        let next = next.ok_or_else(|| "the position to go on from is no number".to_owned())?;
        let bytes: usize = slice.commands.iter().map(|command| command.get().len()).sum();
        if slice.commands.len() < HTTP_COMMANDS_MAX && bytes < HTTP_COMMANDS_BYTES {
            desk.is_current();
        }
        Ok(next)
    }

    /// Sends what waits, as much as there is at a time.
    fn forward(&self, events: &Receiver<String>, queued: &AtomicUsize, (delivered, lost): &(Arc<AtomicU64>, Arc<AtomicU64>)) {
        loop {
            let first = match events.recv_timeout(LINGER) {
                Ok(first) => first,
                Err(_) if self.is_stopping() => return,
                Err(_) => continue,
            };
            let (mut body, mut count) = (first, 1);
            while body.len() < REQUEST_BYTES {
                let Ok(event) = events.recv_timeout(if count == 1 { LINGER } else { Duration::ZERO }) else { break };
                body.push('\n');
                body.push_str(&event);
                count += 1;
            }
            let is_taken = self.post(&body);
            // Line ends between events were not counted when they came.
            queued.fetch_sub(body.len() + 1 - count, Ordering::AcqRel);
            if is_taken { delivered } else { lost }.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Whether a batch was taken. Tries on while the other end is away, since duplicates are dropped by their ids.
    fn post(&self, body: &str) -> bool {
        loop {
            let answer = ask::post(self.address, ("/v1/events", body), self.token.as_deref(), ANSWER_WAIT, ANSWER_BYTES_MAX);
            let code = answer.as_ref().map_or("", |answer| ask::parts(answer).1);
            match code {
                "202" => return true,
                "" | "408" | "429" | "500" | "502" | "503" | "504" if !self.is_stopping() => std::thread::park_timeout(PAUSE),
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_several_lines_is_sent_as_one() {
        assert_eq!(one_line("{\n  \"a\": \"x\\ny\"\r\n}"), "{   \"a\": \"x\\ny\"  }");
    }

    #[test]
    fn an_address_without_scheme_or_with_a_path_is_refused() {
        for url in ["127.0.0.1:9464", "https://127.0.0.1:9464", "http://127.0.0.1:9464/v1", "http://nowhere"] {
            assert!(start(url, None, Options::default(), &Arc::default()).is_err(), "{url}");
        }
    }
}
