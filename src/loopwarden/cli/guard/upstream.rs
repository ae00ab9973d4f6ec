//! Verdicts and events by HTTP: from and to a process with a log of its own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{sync::Arc, time::Duration};

use loopwarden_core::limits::{HTTP_COMMANDS_BYTES, HTTP_COMMANDS_MAX};
use loopwarden_guard::{Guard, Options, Record, Source};
use loopwarden_settings::{Diagnostic, read_secret};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cli::guard::queue::{Queue, Waiting};
use crate::cli::guard::works::{Deliveries, Fate, Works, fate};
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::{cli::shared::ask, exit_code, failure::Failure, http::check::Desk, http::tenant_of};

/// One wait for commands: an answer without any is a sign of life.
const POLL: &str = "4s";
/// Wait for such an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(8);
/// Before another try; longer each time where a person has to do something first, up to the second.
const PAUSE: Duration = Duration::from_secs(1);
/// Before a process that does not answer is asked again: an agent that is stopped must not get through for longer.
const AWAY_PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest answer. Bytes: a slice of commands, and one of any size besides.
const ANSWER_BYTES_MAX: usize = 4 * HTTP_COMMANDS_BYTES;
/// Bytes of one request, and one event besides.
const REQUEST_BYTES: usize = 1 << 20;
/// How long an event waits for company.
const LINGER: Duration = Duration::from_millis(50);

/// The process that is asked.
#[derive(Clone)]
struct Upstream {
    process: RunningProcess,
    /// Read again where the token is not taken any more.
    token_file: Option<PathBuf>,
    stop: Arc<AtomicBool>,
}

/// What became of events.
#[derive(Default)]
struct Sent {
    delivered: AtomicU64,
    rejected: AtomicU64,
    lost: AtomicU64,
}

/// An answer of `GET /v1/commands`.
#[derive(Deserialize)]
struct Slice<'a> {
    #[serde(borrow)]
    commands: Vec<&'a RawValue>,
    next: String,
    /// How late its verdicts are; absent where it does not say so. Milliseconds.
    #[serde(default)]
    lag_ms: u32,
    /// Commands that are not kept there any more; absent where there are none.
    #[serde(default)]
    missed: u64,
}

/// Starts to follow. A process that is away is no failure: calls run until it comes.
///
/// # Errors
/// The URL is none; the file cannot be read, or holds no token.
pub(super) fn start(url: &str, token_file: Option<&Path>, options: Options, stop: &Arc<AtomicBool>) -> Result<Works, Failure> {
    let token = token_file.map(read_token).transpose()?;
    let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')).filter(|host| !host.contains('/'));
    let host =
        host.ok_or_else(|| Failure::new(exit_code::USAGE, format!("error: --upstream {url:?} is not http://HOST:PORT")))?;
    let process = RunningProcess { address: ask::resolve(host)?, token };
    let upstream = Upstream { process, token_file: token_file.map(Path::to_path_buf), stop: Arc::clone(stop) };
    let (queue, sent) = (Arc::new(Queue::default()), Arc::new(Sent::default()));
    let room = Arc::clone(&queue);
    let push = Box::new(move |record: &Record| room.push(tenant_of(record.event.as_bytes()), record));
    let desk = Arc::new(Desk::beside(options, Source::Upstream, push));
    let (source, told) = (upstream.clone(), Arc::clone(&desk));
    let follow = std::thread::Builder::new().name("follower".to_owned()).spawn(move || source.follow(&told))?;
    let counts = Arc::clone(&sent);
    let forward = std::thread::Builder::new().name("events".to_owned()).spawn(move || upstream.forward(&queue, &counts))?;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let deliveries = Box::new(move || Deliveries {
        delivered: count(&sent.delivered),
        rejected: count(&sent.rejected),
        lost: count(&sent.lost),
    });
    Ok(Works { desk, threads: vec![follow, forward], deliveries, place: url.to_owned() })
}

fn read_token(file: &Path) -> Result<String, Diagnostic> {
    read_secret(file, "--upstream-token-file")
}

impl Upstream {
    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Follows the commands from the oldest that is kept: what has expired means nothing, what has not is in force.
    fn follow(mut self, desk: &Desk) {
        let (mut after, mut has_all, mut is_logged) = ("0".to_owned(), true, false);
        desk.feed(Guard::reads_anew);
        while !self.is_stopping() {
            let answer = self.process.get(&format!("/v1/commands?wait={POLL}&after={after}"), ANSWER_WAIT, ANSWER_BYTES_MAX);
            // Who comes back has stops that nobody else knows.
            let is_away = |answer: &Answer| answer.code.is_empty() || answer.code.starts_with('5');
            let pause = if answer.as_ref().ok().is_none_or(is_away) { AWAY_PAUSE } else { PAUSE };
            match answer.map_err(|error| error.to_string()).and_then(|answer| Self::take(answer, &mut has_all, desk)) {
                Ok(next) => (after, is_logged) = (next, false),
                Err(why) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::warn!(why, "commands cannot be followed; calls run without fresh verdicts");
                    }
                    std::thread::park_timeout(pause);
                    self.refresh_token();
                }
            }
        }
    }

    /// Hands the commands of an answer to the guard; where to go on. `has_all`: nothing since the beginning was missing.
    fn take(answer: Answer, has_all: &mut bool, desk: &Desk) -> Result<String, String> {
        let Answer { status, code, body } = answer;
        match code.as_str() {
            "200" => {}
            // The log was begun anew: what the old one placed holds until the new one was read.
            "410" => {
                desk.feed(Guard::reads_anew);
                *has_all = true;
                return Ok("0".to_owned());
            }
            _ => return Err(format!("answered {status:?}")),
        }
        let slice: Slice<'_> = serde_json::from_str(&body).map_err(|error| format!("no list of commands: {error}"))?;
        *has_all &= slice.missed == 0;
        for command in &slice.commands {
            // One at a time: checks come in between.
            desk.feed(|guard, now| guard.command(command.get().as_bytes(), now));
        }
        // A position is a number; whatever else it were would stand in an address.
        let next = Some(slice.next).filter(|next| !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit()));
        let next = next.ok_or_else(|| "the position to go on from is no number".to_owned())?;
        let bytes: usize = slice.commands.iter().map(|command| command.get().len()).sum();
        if slice.commands.len() < HTTP_COMMANDS_MAX && bytes < HTTP_COMMANDS_BYTES {
            desk.is_current(Duration::ZERO, i64::from(slice.lag_ms), *has_all);
        }
        Ok(next)
    }

    fn refresh_token(&mut self) {
        if let Some(Ok(token)) = self.token_file.as_deref().map(read_token) {
            self.process.token = Some(token);
        }
    }

    /// Sends what waits, as much as there is at a time.
    fn forward(mut self, queue: &Queue, sent: &Sent) {
        loop {
            let first = match queue.next(LINGER) {
                Some(first) => first,
                None if self.is_stopping() => return,
                None => continue,
            };
            let mut bytes = first.line.len();
            let mut batch = vec![first];
            while bytes < REQUEST_BYTES {
                let Some(event) = queue.next(if batch.len() == 1 { LINGER } else { Duration::ZERO }) else { break };
                bytes += event.line.len() + 1;
                batch.push(event);
            }
            self.send(&batch, sent);
            queue.done(&batch);
        }
    }

    /// Sends a batch until its fate is known. Tries on while the other end does not take it, since duplicates are dropped by their ids;
    /// meanwhile the queue fills, and agents are told that their events were not recorded.
    fn send(&mut self, batch: &[Waiting], sent: &Sent) {
        let lines: Vec<&str> = batch.iter().map(|event| event.line.as_str()).collect();
        let body = lines.join("\n");
        let add = |count: &AtomicU64, events: usize| count.fetch_add(events as u64, Ordering::Relaxed);
        let mut pause = PAUSE;
        loop {
            let answer = self.process.post("/v1/events", &body, ANSWER_WAIT, ANSWER_BYTES_MAX);
            let Answer { status, code, body: told } = answer.unwrap_or_default();
            match fate(&code, &told, batch.len()) {
                Fate::Taken { rejected } => {
                    add(&sent.delivered, batch.len() - rejected);
                    add(&sent.rejected, rejected);
                    return;
                }
                Fate::Again { .. } if self.is_stopping() => {
                    add(&sent.lost, batch.len());
                    return;
                }
                Fate::Again { needs_person } => {
                    if needs_person && pause == PAUSE {
                        tracing::error!(
                            status,
                            "events are not taken; they are sent again until they are, as far as there is room"
                        );
                    }
                    std::thread::park_timeout(pause);
                    if needs_person {
                        pause = (pause * 2).min(PAUSE_MAX);
                        self.refresh_token();
                    }
                }
                Fate::Halve => {
                    let (first, second) = batch.split_at(batch.len() / 2);
                    self.send(first, sent);
                    return self.send(second, sent);
                }
                Fate::Lost => {
                    if add(&sent.lost, batch.len()) == 0 {
                        tracing::error!(
                            status,
                            events = batch.len(),
                            "events are lost: no other time would be better; this is said once"
                        );
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::thread::JoinHandle;

    use super::*;

    #[test]
    fn an_address_without_scheme_or_with_a_path_is_refused() {
        for url in ["127.0.0.1:9464", "https://127.0.0.1:9464", "http://127.0.0.1:9464/v1", "http://nowhere"] {
            assert!(start(url, None, Options::default(), &Arc::default()).is_err(), "{url}");
        }
    }

    /// Answers so many requests: the authorization and the body of each, and what it says to them.
    fn answering(
        requests: usize,
        answer: impl Fn(&str, &str) -> &'static str + Send + 'static,
    ) -> (SocketAddr, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut bodies = Vec::new();
            for stream in listener.incoming().take(requests) {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut head, mut line) = (String::new(), String::new());
                while stream.read_line(&mut line).unwrap() > 2 {
                    head.push_str(&std::mem::take(&mut line));
                }
                let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
                let mut body = vec![0; value("Content-Length: ").parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let body = String::from_utf8(body).unwrap();
                let (status, told) = answer(&value("Authorization: "), &body).split_once('|').unwrap();
                let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{told}", told.len());
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
                bodies.push(body);
            }
            bodies
        });
        (address, thread)
    }

    /// What became of events, each a line, and the requests that they took.
    fn sent(
        lines: &[&str],
        (token, token_file): (Option<String>, Option<PathBuf>),
        requests: usize,
        answer: impl Fn(&str, &str) -> &'static str + Send + 'static,
    ) -> ([u64; 3], Vec<String>) {
        let (address, server) = answering(requests, answer);
        let queue = Queue::default();
        for line in lines {
            let record = Record { session_id: "s".to_owned(), event: (*line).to_owned() };
            assert!(queue.push(String::new(), &record));
        }
        let batch: Vec<Waiting> = std::iter::from_fn(|| queue.next(Duration::ZERO)).collect();
        let sent = Sent::default();
        Upstream { process: RunningProcess { address, token }, token_file, stop: Arc::default() }.send(&batch, &sent);
        let counts = [&sent.delivered, &sent.rejected, &sent.lost].map(|count| count.load(Ordering::Relaxed));
        (counts, server.join().unwrap())
    }

    #[test]
    fn what_is_too_large_is_sent_in_halves_and_what_is_rejected_counts_as_such() {
        let (counts, bodies) = sent(&["1", "2", "3", "bad"], (None, None), 5, |_, body| match body {
            "1\n2\n3\nbad" | "3\nbad" => "413|",
            "bad" => r#"422|{"accepted":0,"rejected":[{"index":0}]}"#,
            _ => r#"202|{"accepted":1,"rejected":[]}"#,
        });
        assert_eq!((counts, bodies.len()), ([3, 1, 0], 5), "{bodies:?}");
        assert_eq!(bodies[1..], ["1\n2", "3\nbad", "3", "bad"]);
    }

    #[test]
    fn a_token_that_was_replaced_loses_no_event() {
        let file = std::env::temp_dir().join(format!("lw-upstream-token-{}", std::process::id()));
        std::fs::write(&file, "new").unwrap();
        let answer = |authorization: &str, _: &str| if authorization == "Bearer new" { "202|{}" } else { "401|" };
        let (counts, bodies) = sent(&["1"], (Some("old".to_owned()), Some(file.clone())), 2, answer);
        std::fs::remove_file(&file).unwrap();
        assert_eq!((counts, bodies.len()), ([1, 0, 0], 2));
    }
}
