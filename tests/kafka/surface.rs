//! What people see of a process with Kafka: its last commands, a swarm, the lag, and that the lag comes down to nothing behind the
//! markers of transactions.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::{cell::Cell, net::TcpStream, time::Duration};
use std::{fs, thread};

use loopwarden::{clock, clock::Deadline, event::EventTime};
use serde_json::Value;

use crate::bounded::{START_WAIT, bounded};
use crate::broker;
use crate::run::{Scratch, events, produce, program};
use crate::views::{self, Views};
use crate::world::{PATIENCE, World};

/// Between two questions: a process answers fifty a second, and whoever asks more often is sent away.
const PAUSE: Duration = Duration::from_millis(40);

pub(crate) struct Running {
    child: Child,
    address: String,
    /// Not asked again before.
    next: Cell<Deadline>,
}

impl Running {
    pub(crate) fn start(world: &World, scratch: &Scratch) -> Self {
        Self::with(world, scratch, &["--set", "mode=live"])
    }

    fn with(world: &World, scratch: &Scratch, arguments: &[&str]) -> Self {
        let dir = scratch.0.to_string_lossy().into_owned();
        let mut child = program(world, &[&["run", "--data-dir", &dir], arguments].concat())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(scratch.0.with_extension("log")).expect("a log"))
            .spawn()
            .expect("the program");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut lines = lines.map(|line| line.expect("a line"));
        let line = bounded(child.id(), START_WAIT, || lines.find(|line| line.contains("http://")));
        let line = line.unwrap_or_else(|| panic!("it said no address within {START_WAIT:?}\n{}", scratch.log()));
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect("an address").to_owned();
        Self { child, address, next: Cell::new(Deadline::after(PAUSE)) }
    }

    fn get(&self, path: &str) -> String {
        let answer = self.ask(path);
        assert!(!answer.starts_with("HTTP/1.1 429 ") && !answer.starts_with("HTTP/1.1 5"), "{path}: {answer}");
        answer.split_once("\r\n\r\n").expect("an answer").1.to_owned()
    }

    /// The whole answer, whatever it is.
    pub(crate) fn ask(&self, path: &str) -> String {
        while !self.next.get().is_over() {
            thread::park_timeout(self.next.get().left());
        }
        self.next.set(Deadline::after(PAUSE));
        answer(&self.address, path)
    }

    fn json(&self, path: &str) -> Value {
        let text = self.get(path);
        // Answers may come in chunks: a JSON text begins with a bracket.
        let from = text.find('{').unwrap_or_else(|| panic!("{path}: {text}"));
        let to = text.rfind('}').expect("an end");
        serde_json::from_str(&text[from..=to]).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// The number of a metric's line.
    fn metric(&self, line: &str) -> Option<f64> {
        let page = self.get("/metrics");
        page.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
    }
}

/// The whole answer of a listener.
pub(crate) fn answer(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the listener");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_fleet_without_work_is_no_fault_and_dead_letters_say_what_they_were() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::named(bootstrap);
    let scratch = Scratch::new("idle");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let created = program(&world, &["topics", "create", "--partitions", "2"]).output().expect("the program");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let running = Running::start(&world, &scratch);
    let wait = |is_so: &dyn Fn(&Value) -> bool| {
        let deadline = Deadline::after(PATIENCE);
        while !is_so(&running.json("/overview")) {
            assert!(!deadline.is_over(), "{}\n{}", running.get("/overview"), running.get("/readyz?verbose"));
        }
    };
    let doctor = || {
        let output = program(&world, &["doctor", "--address", &running.address]).output().expect("the program");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    wait(&|overview| overview["is_idle"] == true);
    let (code, told) = doctor();
    assert!(code == Some(0) && told.contains("note  nothing consumed since the start "), "{told}");
    assert!(running.get("/readyz?verbose").contains("[+] brokers answer"));
    produce(&world, &[("a".to_owned(), Some(b"no JSON".to_vec())), ("a".to_owned(), Some(b"{}".to_vec()))]);
    wait(&|overview| overview["rejected"] == 2);
    let (code, told) = doctor();
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("2 records became dead letters, beside 0 events: missing_field 1, not_json 1"), "{told}");
    assert!(!told.contains("W0304") && !told.contains("nothing consumed"), "{told}");
}

#[test]
fn with_kafka_the_page_has_the_last_commands_a_swarm_and_a_lag_that_ends_at_nothing() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::named(bootstrap);
    let scratch = Scratch::new("surface");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let created = program(&world, &["topics", "create", "--partitions", "2"]).output().expect("the program");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let running = Running::start(&world, &scratch);
    produce(&world, &events(0..5));
    let swarm = |number: u32| {
        let event = format!(
            r#"{{"id":"w{number}","kind":"tool","session_id":"w{}","swarm_id":"hive","tool":"Bash","args":{{"command":"curl http://dead/"}},"result":"refused","outcome":"error"}}"#,
            number % 2
        );
        (format!("w{}", number % 2), Some(event.into_bytes()))
    };
    produce(&world, &(0..8).map(swarm).collect::<Vec<_>>());
    let wait = |what: &str, is_so: &dyn Fn() -> bool| {
        let deadline = Deadline::after(PATIENCE);
        while !is_so() {
            assert!(!deadline.is_over(), "{what}: {}\n{}", running.get("/overview"), running.get("/tasks"));
        }
    };
    wait("commands", &|| running.json("/overview")["recent"].as_array().is_some_and(|commands| commands.len() >= 5));
    let overview = running.json("/overview");
    let last = overview["recent_last"].as_u64().expect("a number");
    let command = &overview["recent"][0];
    assert_eq!(command["mode"], "live", "{command}");
    assert!(command["reason"]["summary"].as_str().is_some_and(|summary| summary.contains("Bash")), "{command}");
    wait("all seen", &|| running.json(&format!("/overview?after={last}"))["recent_last"].as_u64() >= Some(last));
    // The same commands as in the topic, in the same bytes.
    let topic = world.values(&world.options.topics.commands);
    assert!(topic.iter().any(|value| serde_json::from_str::<Value>(value).expect("JSON") == *command));

    wait("the swarm", &|| running.json("/swarms/hive")["counters"][0]["calls"] == 8);
    let counter = running.json("/swarms/hive")["counters"][0].clone();
    assert_eq!((&counter["agents"], &counter["tool"]), (&Value::from(2), &Value::from("Bash")), "{counter}");
    assert_eq!(running.json("/swarms/nobody")["error"], "no_such_swarm");
    // The command asks the process for the same, and reads a session from the topic.
    let bootstrap_servers = format!("kafka.bootstrap_servers={bootstrap}");
    let inspect = |arguments: &[&str]| -> Value {
        let all = [&["inspect"], arguments, &["--output", "json", "--set", &bootstrap_servers]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_loopwarden")).args(all).output().expect("the program");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let asked = inspect(&["swarm", "hive", "--address", &running.address]);
    assert_eq!((&asked["counters"][0]["calls"], &asked["counters"][0]["agents"]), (&Value::from(8), &Value::from(2)), "{asked}");
    let read = inspect(&["session", "w0", "--topic", &world.options.topics.input]);
    assert_eq!(read["steps"].as_array().map(Vec::len), Some(4), "{read}");
    wait("counters", &|| running.metric("loopwarden_swarm_counters{} ").is_some_and(|number| number >= 1.0));

    // The sums were written by transactions: their markers are offsets that nobody is ever handed over.
    let settled = || {
        let overview = running.json("/overview");
        overview["lag_records"] == 0
            && ["0", "1"].iter().all(|partition| {
                let seconds = format!("loopwarden_lag_seconds{{stage=\"swarm\",partition=\"{partition}\"}} ");
                running.metric(&seconds) == Some(0.0)
            })
    };
    wait("no lag", &settled);
    assert_eq!(running.metric("loopwarden_lso_lag_records{stage=\"swarm\"} "), Some(0.0));
    assert!(running.metric("loopwarden_rebalance_seconds_count{kind=\"assigned\"} ").is_some_and(|count| count >= 1.0));
    assert!(running.metric("loopwarden_restore_seconds_count{stage=\"swarm\"} ").is_some_and(|count| count >= 2.0));
    // A question over all sessions, and the same of those that an event of an operator stops.
    let names = |found: &Value| -> Vec<String> {
        let rows = found["sessions"].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| Some(row["session_id"].as_str()?.to_owned())).collect()
    };
    let listed = running.json("/sessions?sort=calls");
    let all = ["w0", "w1", "s0", "s1", "s2", "s3", "s4"];
    assert_eq!((names(&listed), &listed["looked_at"]), (all.map(str::to_owned).to_vec(), &Value::from(7)), "{listed}");
    assert_eq!(names(&running.json("/sessions?state=looping&limit=1")), ["w0"]);
    let until = EventTime(clock::now_ms()).plus_ms(3_600_000).to_rfc3339();
    let stop = format!(r#"{{"id":"a","kind":"stop","scope":"session","session_id":"w1","reason":"r","until":"{until}"}}"#);
    produce(&world, &[("w1".to_owned(), Some(stop.into_bytes()))]);
    wait("who is stopped", &|| names(&running.json("/sessions?state=stopped")) == ["w1"]);
    // A process that has just started has told nothing, and yet knows what is in force.
    let subjects = |running: &Running| -> Vec<String> {
        let overview = running.json("/overview");
        let rows = overview["active"].as_array().cloned().unwrap_or_default();
        let mut subjects: Vec<String> = rows.iter().map(|row| row["subject"].to_string()).collect();
        subjects.sort();
        subjects
    };
    let before = subjects(&running);
    assert!(before.iter().any(|subject| subject.contains("s0")), "{before:?}");
    drop(running);
    let again = Running::start(&world, &scratch);
    let deadline = Deadline::after(PATIENCE);
    while subjects(&again) != before {
        assert!(!deadline.is_over(), "{before:?}: {}", again.get("/overview"));
    }
    assert_eq!(again.json("/overview")["recent"], Value::Array(Vec::new()));
    let told = &again.json("/sessions/s0")["agents"][0]["verdicts"][0]["message"];
    assert!(told.as_str().is_some_and(|text| text.contains("Bash")), "{told}");
}

/// A process with Kafka whose policy has a trial, and the file of the events that are in its topic.
struct Asked {
    running: Running,
    scratch: Scratch,
}

impl Asked {
    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_loopwarden")).args(arguments).output().expect("the program");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn path(&self, name: &str) -> String {
        self.scratch.0.join(name).display().to_string()
    }
}

impl Views for Asked {
    fn json(&self, path: &str) -> Value {
        self.running.json(path)
    }

    fn sessions(&self, filter: &str) -> String {
        self.run(&["sessions", "--address", &self.running.address, filter])
    }

    fn replay(&self) -> Value {
        let report = self.run(&["replay", &self.path("log.ndjson"), "--policy", &self.path("policy.toml"), "--output", "json"]);
        serde_json::from_str(&report).expect("JSON")
    }
}

#[test]
fn all_views_of_one_log_have_the_same_numbers() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let events = views::fleet(clock::now_ms());
    for mode in ["live", "shadow"] {
        let world = World::new(bootstrap, 2);
        let scratch = Scratch::new("views");
        fs::create_dir_all(&scratch.0).expect("a directory");
        let policy = scratch.0.join("policy.toml");
        fs::write(&policy, views::TRIAL).expect("a policy");
        fs::write(scratch.0.join("log.ndjson"), events.iter().map(|event| format!("{event}\n")).collect::<String>())
            .expect("a file");
        let set = [format!("mode={mode}"), format!("policy={}", policy.display())];
        let running = Running::with(&world, &scratch, &["--set", &set[0], "--set", &set[1]]);
        let record =
            |event: &Value| (event["session_id"].as_str().expect("text").to_owned(), Some(event.to_string().into_bytes()));
        produce(&world, &events.iter().map(record).collect::<Vec<_>>());
        views::agree(&Asked { running, scratch }, mode, PATIENCE);
    }
}

#[test]
fn a_transaction_that_nobody_ends_is_seen_and_its_records_are_counted() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, 1);
    let scratch = Scratch::new("held");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let running = Running::start(&world, &scratch);
    let output = loopwarden::log::Output {
        destination: loopwarden::log::Destination::Commands,
        key: b"s".to_vec(),
        value: Some(b"x".to_vec()),
        headers: loopwarden::log::Headers::default(),
        timestamp_ms: loopwarden::clock::now_ms(),
    };
    let pending = world.write_open(&world.options.topics.input, &output);
    produce(&world, &events(0..1));
    let held = || running.metric("loopwarden_lso_lag_records{stage=\"session\"} ").unwrap_or_default();
    let deadline = Deadline::after(PATIENCE);
    while held() < 4.0 {
        assert!(!deadline.is_over(), "{} records are held back", held());
    }
    pending.abort();
    let deadline = Deadline::after(PATIENCE);
    while held() > 0.0 {
        assert!(!deadline.is_over(), "{} records are held back", held());
    }
}

/// Whoever restarts a process because its start does not end would send what stopped a task to the dead letters once more, each time.
#[test]
fn a_task_that_has_stopped_itself_keeps_no_start_from_ending() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::named(bootstrap);
    let scratch = Scratch::new("stopped");
    fs::create_dir_all(&scratch.0).expect("a directory");
    let created = program(&world, &["topics", "create", "--partitions", "1"]).output().expect("the program");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    // More than a wave: 50 of them become dead letters at a start, and as many are left for the next one.
    let bad: Vec<_> = (0..200).map(|number| (format!("bad-{number}"), Some(b"no json".to_vec()))).collect();
    produce(&world, &bad);
    for start in 1..=2 {
        let running = Running::with(&world, &scratch, &["--set", "mode=live", "--set", "kafka.on_bad_records=stop"]);
        let deadline = Deadline::after(PATIENCE);
        while !running.ask("/readyz?verbose").contains("stopped itself") {
            assert!(!deadline.is_over(), "start {start}: the task goes on\n{}", scratch.log());
        }
        assert!(running.ask("/readyz").starts_with("HTTP/1.1 503 "));
        assert!(running.ask("/startupz").starts_with("HTTP/1.1 200 "), "start {start}: {}", running.ask("/startupz?verbose"));
    }
}
