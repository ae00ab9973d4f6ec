//! The real binary on a real broker: topics, run, events in, commands out, stop, go on; and input that is no event.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::{fs, path::PathBuf};

use loopwarden::clock::Deadline;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;

use crate::bounded::{START_WAIT, bounded};
use crate::broker;
use crate::environment::told_nothing;
use crate::world::{PATIENCE, Seen, World};

/// A directory of one test. Not the system's temporary one: state is refused there.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}-{name}", std::process::id()));
        // A run that was killed may have had the same id, and left its state.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// What the last process said.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.0.with_extension("log")).unwrap_or_default()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        let _ = fs::remove_file(self.0.with_extension("log"));
    }
}

/// The program with the settings of a world.
pub(crate) fn program(world: &World, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    told_nothing(&mut command);
    let options = &world.options;
    // What a guard keeps over a restart is that of its own world.
    command.env("XDG_STATE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("state-{}", options.app)));
    command.args(arguments).stdin(Stdio::null());
    for (key, value) in [
        ("kafka.bootstrap_servers", options.bootstrap_servers.as_str()),
        ("kafka.group", &options.app),
        ("kafka.input", &options.topics.input),
        ("kafka.commands", &options.topics.commands),
        ("kafka.state", &options.topics.state),
        ("kafka.dlq", &options.topics.dead_letters),
        ("instance", "lw-0"),
        ("lanes", "2"),
        ("http.listen", "127.0.0.1:0"),
    ] {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    command
}

/// The program as one of several processes, with these tables in its configuration.
pub(crate) fn with_tables(world: &World, scratch: &Scratch, instance: &str, tables: &str) -> Command {
    fs::create_dir_all(&scratch.0).expect("a directory");
    let config = scratch.0.join("tables.toml");
    fs::write(&config, tables).expect("a configuration");
    let dir = scratch.0.join("data").to_string_lossy().into_owned();
    let mut command = program(world, &["run", "--data-dir", &dir, "--config", &config.to_string_lossy()]);
    command.arg("--set").arg(format!("instance={instance}"));
    command
}

/// A running process; it is killed with this value, if it still runs.
pub(crate) struct Running(Child);

impl Running {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(world: &World, scratch: &Scratch) -> Self {
        let dir = scratch.0.to_string_lossy().into_owned();
        Self::of(program(world, &["run", "--data-dir", &dir]), scratch)
    }

    /// Starts this program, which is to run in mode `shadow`, and waits until it is ready.
    pub(crate) fn of(command: Command, scratch: &Scratch) -> Self {
        Self::in_mode("shadow", command, scratch)
    }

    /// Starts this program, which is to run in this mode, and waits until it is ready.
    pub(crate) fn in_mode(mode: &str, mut command: Command, scratch: &Scratch) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(fs::File::create(scratch.0.with_extension("log")).expect("a log"))
            .spawn()
            .expect("the program");
        let mut line = String::new();
        let pid = child.id();
        let mut output = BufReader::new(child.stdout.as_mut().expect("piped"));
        bounded(pid, START_WAIT, || output.read_line(&mut line)).expect("a line");
        let running = Self(child);
        let is_ready = line.starts_with(&format!("ready: mode {mode}"));
        assert!(is_ready, "not ready within {START_WAIT:?}: {line:?}\n{}", scratch.log());
        running
    }

    /// Sends a signal and waits for the end. Returns the exit code.
    pub(crate) fn end(mut self, signal: &str) -> Option<i32> {
        let sent = Command::new("kill").args([&format!("-{signal}"), &self.0.id().to_string()]).status().expect("kill");
        assert!(sent.success());
        self.0.wait().expect("the process").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a topic again and again until there is so much in it.
pub(crate) fn until(world: &World, topic: &str, count: usize) -> Vec<Seen> {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let seen = world.read(topic);
        if seen.len() >= count {
            return seen;
        }
        assert!(!deadline.is_over(), "{} of {count} in {topic}", seen.len());
    }
}

fn call(session: &str, number: u32) -> (String, String) {
    let event = format!(
        r#"{{"id":"{session}-{number}","kind":"tool","session_id":"{session}","tool":"Bash","args":{{"command":"make"}},"result":"no rule","outcome":"error"}}"#
    );
    (session.to_owned(), event)
}

/// Writes records, keyed, placed by murmur2.
pub(crate) fn produce(world: &World, records: &[(String, Option<Vec<u8>>)]) {
    let producer: BaseProducer = rdkafka::ClientConfig::new()
        .set("bootstrap.servers", &world.options.bootstrap_servers)
        .set("partitioner", "murmur2_random")
        .create()
        .expect("a producer");
    for (key, value) in records {
        let record = BaseRecord::to(&world.options.topics.input).key(key);
        let record = match value {
            Some(value) => record.payload(value),
            None => record,
        };
        producer.send(record).map_err(|(error, _)| error).expect("queued");
    }
    producer.flush(PATIENCE).expect("delivered");
}

pub(crate) fn events(sessions: std::ops::Range<u32>) -> Vec<(String, Option<Vec<u8>>)> {
    let calls = sessions.flat_map(|session| (0..3).map(move |number| call(&format!("s{session}"), number)));
    calls.map(|(key, event)| (key, Some(event.into_bytes()))).collect()
}

/// Live-looking commands of the first detector, by session: what three equal failing calls lead to.
pub(crate) fn repeats(seen: &[Seen]) -> Vec<String> {
    let command =
        |seen: &Seen| -> Value { serde_json::from_slice(seen.value.as_deref().unwrap_or_default()).expect("a command") };
    let mut sessions: Vec<String> = seen
        .iter()
        .map(command)
        .filter(|command| command["reason"]["code"] == "similar_repeat")
        .map(|command| command["session_id"].as_str().unwrap_or_default().to_owned())
        .collect();
    sessions.sort();
    sessions
}

#[test]
fn a_process_that_is_stopped_and_started_again_says_everything_once() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    // Topics by the program itself.
    let world = World::named(bootstrap);
    let scratch = Scratch::new("stop");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let missing = program(&world, &["run", "--data-dir", &scratch.0.to_string_lossy()]).output().expect("the program");
    assert_eq!(missing.status.code(), Some(69), "{}", String::from_utf8_lossy(&missing.stderr));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("E0102"));
    for _ in 0..2 {
        let created = program(&world, &["topics", "create", "--partitions", "4"]).output().expect("the program");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    }
    let checked = program(&world, &["check", "--connect"]).output().expect("the program");
    assert!(checked.status.success(), "{}{}", String::from_utf8_lossy(&checked.stdout), String::from_utf8_lossy(&checked.stderr));

    produce(&world, &events(0..10));
    let first = Running::start(&world, &scratch);
    until(&world, &world.options.topics.commands, 10);
    assert_eq!(first.end("TERM"), Some(0));

    // What comes while nobody runs is not missed.
    produce(&world, &events(10..20));
    let second = Running::start(&world, &scratch);
    let deadline = Deadline::after(PATIENCE);
    let seen = loop {
        let seen = world.read(&world.options.topics.commands);
        if repeats(&seen).len() >= 20 {
            break seen;
        }
        assert!(!deadline.is_over(), "{:?}\n{}", repeats(&seen), scratch.log());
    };
    let mut expected: Vec<String> = (0..20).map(|session| format!("s{session}")).collect();
    expected.sort();
    assert_eq!(repeats(&seen), expected);
    let mut ids: Vec<Value> = seen
        .iter()
        .map(|seen| serde_json::from_slice::<Value>(seen.value.as_deref().unwrap_or_default()).expect("JSON")["id"].clone())
        .collect();
    let all = ids.len();
    ids.sort_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!(ids.len(), all, "a command came twice");
    // Leaving the group is graceful too.
    assert_eq!(second.end("USR1"), Some(0));
}

/// Records that are no events, with the reason their dead letters must name.
fn bad_records() -> Vec<(&'static str, Option<Vec<u8>>)> {
    let deep = [
        b"{\"id\":\"d\",\"kind\":\"tool\",\"session_id\":\"s\",\"tool\":\"t\",\"args\":".to_vec(),
        b"[".repeat(10_000),
        b"]".repeat(10_000),
        b"}".to_vec(),
    ];
    let random: Vec<u8> = (0..512_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 | 0x80).collect();
    vec![
        ("not_utf8", Some(random)),
        ("too_large", Some(vec![b'x'; 300 * 1024])),
        ("too_deep", Some(deep.concat())),
        ("bad_type", Some(br#"{"id":"a","kind":"tool","session_id":"s","tool":7}"#.to_vec())),
        ("duplicate_field", Some(br#"{"id":"a","id":"b","kind":"tool","session_id":"s","tool":"t"}"#.to_vec())),
        ("not_json", Some(Vec::new())),
        ("null_value", None),
        ("bad_value", Some(br#"{"id":"a\ud800","kind":"tool","session_id":"s","tool":"t"}"#.to_vec())),
        ("unsupported_format", Some(b"[1,2,3]".to_vec())),
        ("not_an_object", Some(b"7".to_vec())),
        ("unknown_kind", Some(br#"{"id":"a","kind":"dance","session_id":"s"}"#.to_vec())),
        ("missing_field", Some(br#"{"id":"a","kind":"tool","session_id":"s"}"#.to_vec())),
    ]
}

#[test]
fn what_is_no_event_becomes_one_dead_letter_with_its_reason_and_place_and_the_stream_goes_on() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 2);
    let scratch = Scratch::new("bad");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let bad = bad_records();
    let mut records: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for (reason, value) in &bad {
        records.push(((*reason).to_owned(), value.clone()));
        records.extend(events(0..1));
    }
    // The session goes on behind all of them.
    records.extend(events(1..2));
    produce(&world, &records);
    let running = Running::start(&world, &scratch);
    let letters = until(&world, &world.options.topics.dead_letters, bad.len());
    let deadline = Deadline::after(PATIENCE);
    while !repeats(&world.read(&world.options.topics.commands)).contains(&"s1".to_owned()) {
        assert!(!deadline.is_over(), "the stream does not go on\n{}", scratch.log());
    }
    assert_eq!(running.end("TERM"), Some(0));

    let header = |letter: &Seen, name: &str| -> String {
        let found = letter.headers.iter().rev().find(|(header, _)| header == name);
        String::from_utf8(found.map(|(_, value)| value.clone()).unwrap_or_default()).expect("text")
    };
    let input = world.read(&world.options.topics.input);
    let letters_now = world.read(&world.options.topics.dead_letters);
    assert_eq!(letters_now.len(), letters.len(), "a dead letter came later");
    for (reason, value) in &bad {
        let found: Vec<&Seen> = letters.iter().filter(|letter| letter.key == reason.as_bytes()).collect();
        assert_eq!(found.len(), 1, "{reason}");
        let letter = found[0];
        assert_eq!(header(letter, "dlq.reason"), *reason);
        assert_eq!(header(letter, "dlq.topic"), world.options.topics.input);
        let source = input.iter().find(|record| record.key == reason.as_bytes()).expect("its source");
        assert_eq!(header(letter, "dlq.partition"), source.partition.to_string(), "{reason}");
        assert_eq!(header(letter, "dlq.offset"), source.offset.to_string(), "{reason}");
        assert_eq!(&letter.value, value, "{reason}: the letter is the record");
    }
}

#[test]
fn one_agent_that_sends_what_is_no_event_stops_no_partition() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let scratch = Scratch::new("alone");
    fs::create_dir_all(&scratch.0).expect("a directory");
    // Far more than a wave, in the one partition that all have in common.
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let records: Vec<(String, Option<Vec<u8>>)> = (0..300)
        .map(|number| {
            let value = match number % 3 {
                0 => format!(r#"{{"id":"e{number}","session_id":"evil","kind":"tool","tool":"t","args":{deep}}}"#),
                1 => format!(r#"{{"id":"e{number}","session_id":"evil","kind":"tool","tool":"{}"}}"#, "n".repeat(257)),
                _ => "no json".to_owned(),
            };
            ("evil".to_owned(), Some(value.into_bytes()))
        })
        .chain(events(0..2))
        .collect();
    produce(&world, &records);
    let running = Running::start(&world, &scratch);
    let letters = until(&world, &world.options.topics.dead_letters, 300);
    let deadline = Deadline::after(PATIENCE);
    while !repeats(&world.read(&world.options.topics.commands)).contains(&"s1".to_owned()) {
        assert!(!deadline.is_over(), "the stream does not go on\n{}", scratch.log());
    }
    assert_eq!(running.end("TERM"), Some(0));
    assert_eq!(letters.len(), 300, "each has its letter");
    let copies = letters.iter().filter(|letter| letter.value.is_some()).count();
    assert!((100..=200).contains(&copies), "a share of each minute: {copies}");
}

#[test]
fn a_broker_that_is_not_there_has_a_code_and_a_way_out() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut world = World::named(bootstrap);
    world.options.bootstrap_servers = "127.0.0.1:1".to_owned();
    let output = program(&world, &["topics", "check"]).output().expect("the program");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(69), "{told}");
    assert!(told.contains("E0101"), "{told}");
}
