//! The soak of the embedded log (T21): two processes, each with a log of its own, fed over HTTP with the same events. One is left alone and
//! watched; the other dies every minute, as the power goes or asked to, often with a request on its way. Both must tell every command of
//! the uninterrupted run, once, under numbers without a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::iter::Peekable;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io, thread};

use loopwarden::clock;
use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::event::EventTime;
use serde_json::Value;

use crate::flat::{SAMPLE_EVERY, Series};
use crate::fleet::{Event, Fleet};
use crate::outcome::Seen;
use crate::process::Process;
use crate::{flat, reference, report};

/// Of the fleet's time against that of the kill loop: some 750 events a second, for each of the two.
const SLOWER: i64 = 8;
/// Longer than a process takes to come back: until then events wait.
const LATENESS_MS: i64 = 20_000;
/// Events of a request.
const BATCH: usize = 250;
const PARTITIONS: u32 = 4;
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/embedded.toml");
const DISTURB_EVERY_MS: u64 = 60_000;
/// Longest silence of a process that has something to say.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// One soak.
pub(crate) struct Soak {
    minutes: u64,
    events: usize,
    commands: usize,
    watched: Series,
    disturbed: u64,
    again: u64,
    problems: Vec<String>,
}

/// The fleet as its agents post it: what is refused at once is left out.
fn events(minutes: u64, begin_ms: i64) -> impl Iterator<Item = Event> {
    let is_event = |event: &Event| {
        let text = event.value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        // Of a session that one agent ends, the other would stay for a day.
        text.contains("\"session_id\"") && !text.contains("nonsense") && !text.contains(r#""sub""#)
    };
    Fleet::beginning(minutes, begin_ms, SLOWER)
        .filter(is_event)
        .take_while(move |event| event.timestamp_ms < begin_ms + minutes as i64 * 60_000)
}

/// A process, what it was sent and what it has told.
struct Side {
    process: Process,
    address: Option<String>,
    events: Peekable<Box<dyn Iterator<Item = Event>>>,
    /// Posted and not acknowledged; posted again, whole, until it is.
    batch: Vec<u8>,
    again: u64,
    /// Position of the newest command.
    after: u64,
    /// Ids and what was told.
    told: Vec<(String, String)>,
    problems: Vec<String>,
}

impl Side {
    fn new(root: &Path, name: &str, events: impl Iterator<Item = Event> + 'static) -> Self {
        let sets = [
            format!("embedded.partitions={PARTITIONS}"),
            "embedded.retention_ms=60000".to_owned(),
            format!("policy={POLICY}"),
            "limits.session_cache_bytes=16777216".to_owned(),
            "limits.block_cache_bytes=33554432".to_owned(),
            format!("time.lateness_ms={LATENESS_MS}"),
        ];
        let mut process = Process::embedded(root, name, 2, &sets);
        process.start();
        let events = (Box::new(events) as Box<dyn Iterator<Item = Event>>).peekable();
        let (batch, told, problems) = (Vec::new(), Vec::new(), Vec::new());
        Self { process, address: None, events, batch, again: 0, after: 0, told, problems }
    }

    /// Where it listens in this life; none before it is ready.
    fn address(&mut self) -> Option<String> {
        if self.address.is_none() {
            let greeting = self.process.greeting();
            let is_ready = greeting.contains("/v1/commands?");
            let address = greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next());
            self.address = address.filter(|_| is_ready).map(str::to_owned);
        }
        self.address.clone()
    }

    /// Takes the next events, those whose time has come, where the last are acknowledged.
    fn fill(&mut self) {
        let now_ms = clock::now_ms();
        let mut room = if self.batch.is_empty() { BATCH } else { 0 };
        while let Some(event) = self.events.next_if(|event| room > 0 && event.timestamp_ms <= now_ms) {
            self.batch.extend(event.value.unwrap_or_default());
            self.batch.push(b'\n');
            room -= 1;
        }
    }

    fn begin_post(&mut self) -> Option<TcpStream> {
        let address = self.address()?;
        send(&address, "POST", "/v1/events", &self.batch).ok()
    }

    /// Posts what is due.
    fn post(&mut self) {
        self.fill();
        if self.batch.is_empty() || self.address().is_none() {
            return;
        }
        match self.begin_post().and_then(|stream| answer(stream).ok()) {
            Some((202, text)) => {
                if !text.contains("\"rejected\":[]") {
                    self.problems.push(format!("refused: {text}"));
                }
                self.batch.clear();
            }
            _ => self.again += 1,
        }
    }

    /// Reads what was told since.
    fn listen(&mut self) {
        let Some(address) = self.address() else { return };
        let path = format!("/v1/commands?wait=0s&after={}", self.after);
        let Ok((200, text)) = send(&address, "GET", &path, b"").and_then(answer) else { return };
        let said: Value = serde_json::from_str(&text).expect("an answer");
        let commands = said["commands"].as_array().expect("commands");
        let next: u64 = said["next"].as_str().and_then(|next| next.parse().ok()).expect("a position");
        if next != self.after + commands.len() as u64 || !said["missed"].is_null() {
            self.problems.push(format!(
                "a gap: from {} to {next} with {} commands: {}",
                self.after,
                commands.len(),
                said["missed"]
            ));
        }
        self.after = next;
        self.told.extend(commands.iter().map(|command| (command["id"].to_string(), content(command.clone()))));
    }

    /// Ends it, one way or the other, and starts it again.
    fn disturb(&mut self, number: u64) {
        if number.is_multiple_of(3) {
            self.finish();
        } else {
            // Half of the time a request is on its way.
            self.fill();
            let on_its_way = if number.is_multiple_of(2) { self.begin_post() } else { None };
            self.again += u64::from(on_its_way.is_some());
            self.process.kill();
        }
        self.address = None;
        self.process.start();
    }

    fn finish(&mut self) {
        let status = self.process.finish("TERM");
        if !status.success() {
            self.problems.push(format!("ended with {status}"));
        }
        self.address = None;
    }

    /// Everything that differs from the uninterrupted run: what it says, by task.
    fn differences(&self, expected: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let mut problems = self.problems.clone();
        let mut counts = BTreeMap::<&str, u32>::new();
        self.told.iter().for_each(|(id, _)| *counts.entry(id).or_default() += 1);
        problems.extend(counts.iter().filter(|(_, count)| **count > 1).map(|(id, count)| format!("told {count} times: {id}")));
        let tasks: BTreeMap<&str, &str> =
            expected.iter().flat_map(|(task, said)| said.iter().map(move |said| (said.as_str(), task.as_str()))).collect();
        let mut orders = BTreeMap::<&str, Vec<&str>>::new();
        for (_, said) in &self.told {
            orders.entry(tasks.get(said.as_str()).copied().unwrap_or("none")).or_default().push(said);
        }
        let none = Vec::new();
        for (task, theirs) in expected {
            let ours = orders.get(task.as_str()).unwrap_or(&none);
            let is_swarm = task.starts_with("swarm/");
            let set = |said: &[&str]| said.iter().map(|said| (*said).to_owned()).collect::<BTreeSet<_>>();
            let is_same = if is_swarm { set(ours) == theirs.iter().cloned().collect() } else { ours == theirs };
            if !is_same {
                let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| *ours == theirs).count();
                let (first, second) = (ours.get(at).copied().unwrap_or("none"), theirs.get(at).map_or("none", String::as_str));
                let counts = format!("{} commands, expected {}", ours.len(), theirs.len());
                problems.push(format!("{task}: {counts}; they part at {at}:\n  expected {second}\n  found    {first}"));
            }
        }
        problems.extend(orders.get("none").map(|said| format!("{} commands nobody expects, as {}", said.len(), said[0])));
        problems.into_iter().map(|words| format!("{}: {words}", self.process.name)).collect()
    }
}

/// A command without what the moment makes at which its event arrived: its subject's epoch, its own time, the ids that come of them, and
/// places in the log. When a swarm's sum is judged depends on the cut, what it crosses does not (rule W4): the id says that.
fn content(mut command: Value) -> String {
    if command["session_id"].is_null() {
        return command["id"].to_string();
    }
    for (part, names) in [("", &["id", "epoch", "episode", "issued_at", "expires_at"][..]), ("/trigger", &["topic", "offset"])] {
        let part = command.pointer_mut(part).and_then(Value::as_object_mut);
        part.into_iter().for_each(|part| names.iter().for_each(|name| drop(part.remove(*name))));
    }
    command.to_string()
}

/// What the uninterrupted run says, by task.
fn expected(events: impl Iterator<Item = Event> + 'static) -> BTreeMap<String, Vec<String>> {
    let policy = loopwarden::config::policy::load(POLICY);
    let topics = ["events".to_owned(), "swarm".to_owned()];
    let outcome = reference::run(events, PARTITIONS, topics, "loopwarden", Arc::new(policy.expect("a policy")), LATENESS_MS, &[]);
    let of_seen = |seen: &Seen| {
        let value = seen.bytes.rsplit(|byte| *byte == b'\n').next().and_then(|value| serde_json::from_slice(value).ok());
        content(value.expect("a command"))
    };
    let of_task = |(task, seen): (String, Vec<Seen>)| (task, seen.iter().map(of_seen).collect());
    outcome.outputs.into_iter().filter(|(_, seen)| !seen.is_empty()).map(of_task).collect()
}

/// Sends a request on a connection of its own.
fn send(address: &str, method: &str, path: &str, body: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    let media = "application/x-ndjson";
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    Ok(stream)
}

/// Status and body of an answer that came whole.
fn answer(mut stream: TcpStream) -> io::Result<(u16, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, body.to_owned()))
}

/// Works for so many minutes.
pub(crate) fn run(minutes: u64) -> Soak {
    // What is far from the clock would be forgotten, or clamped, with the first tick of the log.
    let begin_ms = clock::now_ms();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", std::process::id()));
    let mut sides = ["watched", "killed"].map(|name| Side::new(&root, name, events(minutes, begin_ms)));
    let watch = Stopwatch::start();
    let now_ms = || watch.elapsed().as_millis() as u64;
    let mut watched = Series::new("left alone".to_owned(), minutes * 60_000);
    let (mut disturbed, mut next) = (0, Deadline::after(SAMPLE_EVERY));
    while now_ms() < minutes * 60_000 {
        for side in &mut sides {
            side.post();
            side.listen();
        }
        if next.is_over() {
            next = Deadline::after(SAMPLE_EVERY);
            watched.note(&sides[0].process, now_ms());
        }
        if now_ms() >= (disturbed + 1) * DISTURB_EVERY_MS {
            disturbed += 1;
            sides[1].disturb(disturbed);
            let [first, second] = [&sides[0], &sides[1]].map(|side| side.told.len());
            println!("{:>4} s: {first} and {second} commands told", now_ms() / 1_000);
        }
        thread::park_timeout(PAUSE);
    }
    for side in &mut sides {
        let mut quiet = Deadline::after(PATIENCE);
        while !quiet.is_over() {
            let told = side.told.len();
            side.post();
            side.listen();
            if side.told.len() > told {
                quiet = Deadline::after(PATIENCE);
            }
            thread::park_timeout(PAUSE);
        }
        // What comes only with the end, or with another life, would be too many.
        side.finish();
        side.process.start();
        while side.address().is_none() {
            thread::park_timeout(PAUSE);
        }
        side.listen();
        side.finish();
    }
    let expected = expected(events(minutes, begin_ms));
    let commands = expected.values().map(Vec::len).sum();
    let problems: Vec<String> = sides.iter().flat_map(|side| side.differences(&expected)).collect();
    if problems.is_empty() {
        let _ = fs::remove_dir_all(&root);
    }
    let again = sides[1].again;
    Soak { minutes, events: events(minutes, begin_ms).count(), commands, watched, disturbed, again, problems }
}

impl Soak {
    pub(crate) fn is_good(&self) -> bool {
        self.commands > 0 && !self.watched.is_empty() && self.watched.grown().is_empty() && self.problems.is_empty()
    }

    /// Writes it under `tests/chaos/runs/`.
    pub(crate) fn keep(&self) {
        report::keep("-soak-embedded", &self.to_string());
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minutes, events, commands, disturbed, again, problems, .. } = self;
        writeln!(f, "# Soak of the embedded log: {}\n", if self.is_good() { "flat" } else { "FAILED" })?;
        writeln!(
            f,
            "    LOOPWARDEN_SOAK_MINUTES={minutes} LOOPWARDEN_SOAK_LOG=embedded cargo test --release --locked --test chaos\n"
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", report::machine())?;
        writeln!(
            f,
            "| processes | two of 2 lanes and {PARTITIONS} partitions, retention a minute; one was ended {disturbed} times |"
        )?;
        writeln!(f, "| events | {events} for each, as their times come |")?;
        writeln!(f, "| commands of the uninterrupted run | {commands} |")?;
        writeln!(f, "| requests of the one that were sent again | {again} |")?;
        writeln!(f, "| lost, doubled, reordered, without a number, refused, ended by itself | **{}** |", problems.len())?;
        writeln!(f, "\nWhat the one that was left alone took, mean of each quarter:\n\n{}{}", flat::HEAD, self.watched.rows())?;
        for words in self.watched.grown().iter().chain(problems.iter().take(20)) {
            writeln!(f, "\n**{words}**")?;
        }
        Ok(())
    }
}
