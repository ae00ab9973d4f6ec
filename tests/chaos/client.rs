//! A client of one embedded log: posts the fleet's events in order, again where nobody answered, and reads the commands.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io, thread};
use std::{iter::Peekable, net::TcpStream, sync::Arc, sync::mpsc::Receiver, time::Duration};

use loopwarden::clock;
use serde_json::Value;

use crate::outcome::{Outcome, Seen, Spill};
use crate::people::{Answering, Shared};
use crate::reference::{Input, episode_of};
use crate::{feeder::Between, fleet::Event, process::Process, reference};

/// Of every embedded log here.
pub(crate) const PARTITIONS: u32 = 4;
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/embedded.toml");
/// Events of a request.
const BATCH: usize = 500;
/// Longest silence of a process that has something to say.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Until a process that is away is asked again.
const WATCH_PAUSE: Duration = Duration::from_millis(10);

/// What the process is told.
pub(crate) fn settings(lateness_ms: i64, retention_ms: i64) -> Vec<String> {
    vec![
        format!("embedded.partitions={PARTITIONS}"),
        format!("embedded.retention_ms={retention_ms}"),
        format!("policy={POLICY}"),
        "limits.session_cache_bytes=16777216".to_owned(),
        "limits.block_cache_bytes=33554432".to_owned(),
        format!("time.lateness_ms={lateness_ms}"),
    ]
}

/// Whether its agent can post it: what is refused at once is left out.
pub(crate) fn is_event(event: &Event) -> bool {
    let text = event.value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    // Of a session that one agent ends, the other would stay for a day.
    text.contains("\"session_id\"") && !text.contains("nonsense") && !text.contains(r#""sub""#)
}

/// What a process was sent and what it has told.
pub(crate) struct Client {
    name: String,
    greeting: PathBuf,
    address: Option<String>,
    events: Peekable<Box<dyn Iterator<Item = Event> + Send>>,
    /// Events taken from there.
    pub(crate) taken: u64,
    /// What people send, which comes at once.
    people: Option<Receiver<Between>>,
    /// That, with how many of the fleet's events came before, as the uninterrupted run is given it.
    pub(crate) acted: Vec<(u64, Event)>,
    /// Time of the fleet's last event. Unix ms.
    now_ms: i64,
    /// Posted and not acknowledged; posted again, whole, until it is.
    batch: Vec<u8>,
    pub(crate) again: u64,
    /// Position of the newest command.
    after: u64,
    /// In the order in which it was told.
    pub(crate) told: Vec<Seen>,
    spill: Spill,
    pub(crate) problems: Vec<String>,
}

impl Client {
    pub(crate) fn new(folder: &Path, process: &Process, events: impl Iterator<Item = Event> + Send + 'static) -> Self {
        Self {
            name: process.name.clone(),
            greeting: process.greeting_file(),
            address: None,
            events: (Box::new(events) as Box<dyn Iterator<Item = Event> + Send>).peekable(),
            taken: 0,
            people: None,
            acted: Vec::new(),
            now_ms: 0,
            batch: Vec::new(),
            again: 0,
            after: 0,
            told: Vec::new(),
            spill: Spill::new(folder, &format!("{}-told", process.name)),
            problems: Vec::new(),
        }
    }

    /// People send events too.
    pub(crate) fn with(mut self, people: Receiver<Between>) -> Self {
        self.people = Some(people);
        self
    }

    /// Where the process listens in this life; none before it is ready.
    pub(crate) fn address(&mut self) -> Option<String> {
        if self.address.is_none() {
            let greeting = fs::read_to_string(&self.greeting).unwrap_or_default();
            let is_ready = greeting.contains("/v1/commands?");
            let address = greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next());
            self.address = address.filter(|_| is_ready).map(str::to_owned);
        }
        self.address.clone()
    }

    /// It lives no more.
    pub(crate) fn forget_address(&mut self) {
        self.address = None;
    }

    /// Takes the next events, where the last are acknowledged: up to so many in all, and those whose time has come.
    fn fill(&mut self, until: u64, now_ms: i64) {
        if !self.batch.is_empty() {
            return;
        }
        if self.now_ms > 0 {
            self.act();
        }
        let mut room = BATCH;
        while let Some(event) = self.events.next_if(|event| room > 0 && self.taken < until && event.timestamp_ms <= now_ms) {
            self.batch.extend(event.value.unwrap_or_default());
            self.batch.push(b'\n');
            self.now_ms = event.timestamp_ms;
            self.taken += 1;
            room -= 1;
        }
    }

    /// Takes what people have sent.
    fn act(&mut self) {
        let now_ms = self.now_ms;
        for Between { key, make, about } in self.people.iter().flat_map(Receiver::try_iter) {
            let text = make(now_ms);
            self.batch.extend(text.as_bytes());
            self.batch.push(b'\n');
            let text = about.map_or(text.clone(), |about| text.replace(&about.episode, &episode_of(&about.trigger)));
            self.acted.push((self.taken, Event { session: key, value: Some(text.into_bytes()), timestamp_ms: now_ms }));
        }
    }

    /// Sends what is due, and does not wait for the answer.
    pub(crate) fn begin_post(&mut self) -> Option<TcpStream> {
        self.fill(u64::MAX, clock::now_ms());
        let address = self.address()?;
        send(&address, "POST", "/v1/events", &self.batch).ok()
    }

    /// Whether everything that was taken is acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.batch.is_empty()
    }

    /// Whether there is nothing more to take.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.events.peek().is_none()
    }

    /// Posts what is due, of the first so many events; whether it was accepted.
    pub(crate) fn post(&mut self, until: u64) -> bool {
        self.fill(until, clock::now_ms());
        let Some(address) = self.address().filter(|_| !self.batch.is_empty()) else { return false };
        let Ok(stream) = send(&address, "POST", "/v1/events", &self.batch) else {
            self.forget_address();
            return false;
        };
        let Ok((202, text)) = answer(stream) else {
            self.again += 1;
            self.forget_address();
            return false;
        };
        if !text.contains("\"rejected\":[]") {
            self.problems.push(format!("refused: {text}"));
        }
        self.batch.clear();
        true
    }

    /// Reads what was told since; whether there was anything.
    pub(crate) fn listen(&mut self) -> bool {
        let Some(address) = self.address() else { return false };
        let path = format!("/v1/commands?wait=0s&after={}", self.after);
        let Ok((200, text)) = send(&address, "GET", &path, b"").and_then(answer) else {
            self.forget_address();
            return false;
        };
        let said: Value = serde_json::from_str(&text).expect("an answer");
        let commands = said["commands"].as_array().expect("commands");
        let next: u64 = said["next"].as_str().and_then(|next| next.parse().ok()).expect("a position");
        if next != self.after + commands.len() as u64 || said["missed"] != 0 {
            let (from, count, missed) = (self.after, commands.len(), &said["missed"]);
            self.problems.push(format!("a gap: from {from} to {next} with {count} commands: {missed}"));
        }
        self.after = next;
        for command in commands {
            let seen = self.spill.keep(command["id"].to_string(), content(command.clone()).into_bytes());
            self.told.push(seen);
        }
        !commands.is_empty()
    }

    /// Everything that differs from the uninterrupted run: what it says, by task.
    pub(crate) fn differences(mut self, mut expected: Outcome) -> Vec<String> {
        let mut problems = std::mem::take(&mut self.problems);
        let mut ids: Vec<&str> = self.told.iter().map(|seen| seen.id.as_str()).collect();
        ids.sort_unstable();
        problems.extend(ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| format!("told again: {}", pair[0])));
        let mut tasks = BTreeMap::<u128, &str>::new();
        for (task, said) in &expected.outputs {
            tasks.extend(said.iter().map(|seen| (seen.digest(), task.as_str())));
        }
        let mut orders = BTreeMap::<&str, Vec<&Seen>>::new();
        for seen in &self.told {
            orders.entry(tasks.get(&seen.digest()).copied().unwrap_or("none")).or_default().push(seen);
        }
        let none = Vec::new();
        let mut parted = Vec::new();
        for (task, theirs) in &expected.outputs {
            let ours = orders.get(task.as_str()).unwrap_or(&none);
            let at = ours.iter().zip(theirs).take_while(|(ours, theirs)| ours.is_same(theirs)).count();
            let is_same = if task.starts_with("swarm/") {
                let ours: BTreeSet<u128> = ours.iter().map(|seen| seen.digest()).collect();
                ours == theirs.iter().map(Seen::digest).collect()
            } else {
                at == ours.len() && at == theirs.len()
            };
            if !is_same {
                let counts = format!("{task}: {} commands, expected {}; they part at {at}", ours.len(), theirs.len());
                parted.push((counts, ours.get(at).map(|seen| (*seen).clone()), theirs.get(at).cloned()));
            }
        }
        let unknown = orders.get("none").map(|said| (said.len(), said[0].clone()));
        for (counts, ours, theirs) in parted {
            let theirs = theirs.zip(expected.spill.as_mut()).map(|(seen, spill)| spill.text(&seen));
            let ours = ours.map(|seen| self.spill.text(&seen));
            problems.push(format!("{counts}:\n  expected {theirs:?}\n  found    {ours:?}"));
        }
        if let Some((count, example)) = unknown {
            problems.push(format!("{count} commands nobody expects, as {}", self.spill.text(&example)));
        }
        problems.into_iter().map(|words| format!("{}: {words}", self.name)).collect()
    }
}

/// A command without what the moment makes at which its event arrived: its subject's epoch, its own time, the ids that come of them, and
/// places in the log. When a swarm's sum is judged depends on the cut, what it crosses does not (rule W4): the id says that.
fn content(mut command: Value) -> String {
    let is_act = ["stop", "release", "reset", "answer"].iter().any(|code| command["reason"]["code"] == *code);
    if command["session_id"].is_null() && !is_act {
        return command["id"].to_string();
    }
    for (part, names) in [("", &["id", "epoch", "episode", "issued_at", "expires_at"][..]), ("/trigger", &["topic", "offset"])] {
        let part = command.pointer_mut(part).and_then(Value::as_object_mut);
        part.into_iter().for_each(|part| names.iter().for_each(|name| drop(part.remove(*name))));
    }
    // A process knows who posts an act, the uninterrupted run does not.
    if is_act {
        for (part, name) in [("", "labels"), ("/reason", "summary"), ("/reason/evidence", "actor")] {
            let part = command.pointer_mut(part).and_then(Value::as_object_mut);
            part.into_iter().for_each(|part| drop(part.remove(name)));
        }
    }
    command.to_string()
}

/// What the uninterrupted run says, by task.
pub(crate) fn expected(events: impl Iterator<Item = Event> + 'static, lateness_ms: i64, folder: &Path, name: &str) -> Outcome {
    let policy = loopwarden::config::policy::load(POLICY);
    let input = Input {
        events,
        partitions: PARTITIONS,
        topics: ["events".to_owned(), "swarm".to_owned()],
        app: "loopwarden".to_owned(),
        policy: Arc::new(policy.expect("a policy")),
        lateness_ms,
        names_triggers: true,
    };
    let mut outcome = reference::run(input, &[], Spill::new(folder, &format!("{name}-expected")), |id, bytes| {
        let value = bytes.rsplit(|byte| *byte == b'\n').next().and_then(|value| serde_json::from_slice(value).ok());
        (id, content(value.expect("a command")).into_bytes())
    });
    outcome.outputs.retain(|_, said| !said.is_empty());
    outcome
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

/// Reads the commands of a process as everybody may see them, from the first on, whatever life it is in.
pub(crate) fn watch_process(address: &str, shared: &Shared, mut answering: Answering) {
    let mut after = 0_u64;
    while !shared.is_blind() {
        let path = format!("/v1/commands?wait=1s&after={after}");
        let Ok((200, text)) = send(address, "GET", &path, b"").and_then(answer) else {
            thread::park_timeout(WATCH_PAUSE);
            continue;
        };
        let said: Value = serde_json::from_str(&text).expect("an answer");
        let next = said["next"].as_str().and_then(|next| next.parse().ok());
        after = next.expect("a position");
        for command in said["commands"].as_array().into_iter().flatten() {
            if !shared.ledger().told(command) {
                answering.look(command, shared);
            }
        }
    }
}
