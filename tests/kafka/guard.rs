//! A guard beside an agent of a fleet: what the engine has decided is obeyed, and a broker that dies holds up nobody.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::{fs, net::TcpStream, time::Duration};
use std::{io, thread};

use loopwarden::{clock::Deadline, event::partition_of, log::Destination};
use rdkafka::producer::BaseRecord;
use serde_json::{Value, json};

use crate::bounded::{START_WAIT, bounded};
use crate::proxy::Proxy;
use crate::run::{Scratch, program, until};
use crate::world::{PATIENCE, World, output};
use crate::{broker, surface};

const PARTITIONS: u32 = 4;
/// What an agent of these tests waits. Its socket gives up then, so that a later answer fails the test.
const DEADLINE: Duration = Duration::from_secs(20);
/// What the model of an agent thinks between two calls: ten calls take longer than a commit, so that a nudge comes before a block.
const THINKING: Duration = Duration::from_millis(50);

/// A process with its address; killed with this value.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    /// Starts the program, and waits for the line that has an address.
    fn start(world: &World, scratch: &Scratch, arguments: &[&str]) -> Self {
        Self::of(program(world, arguments), scratch)
    }

    fn of(mut command: Command, scratch: &Scratch) -> Self {
        let errors = fs::OpenOptions::new().create(true).append(true).open(scratch.0.with_extension("log")).expect("a log");
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().expect("the program");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = bounded(child.id(), START_WAIT, || {
            lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once("http://")?.1.to_owned()))
        });
        let address = address.unwrap_or_else(|| panic!("no address: {}", scratch.log()));
        let address = address.split(['/', ',']).next().expect("an address").to_owned();
        Self { child, address }
    }

    /// Asks; the answer comes before the deadline.
    fn check(&self, event: &Value) -> Value {
        let body = json!({
            "event": event,
            "client": { "name": "test", "can": ["deny", "context_after"] },
            "deadline_ms": DEADLINE.as_millis() as u64,
        })
        .to_string();
        let mut stream = TcpStream::connect(&self.address).expect("the guard");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        let head = format!(
            "POST /v1/check HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer before the deadline");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        serde_json::from_str(answer.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    }

    fn metric(&self, name: &str) -> u64 {
        let text = surface::answer(&self.address, "/metrics");
        let line = text.lines().find(|line| line.starts_with(&format!("loopwarden_guard_{name}{{}} "))).expect("the metric");
        line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok()).expect("a number") as u64
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An event of the only agent, always about the same call.
fn event(number: usize, kind: &str) -> Value {
    let mut event = json!({
        "id": format!("{number}-{kind}"), "kind": kind, "session_id": "s", "tool": "Bash", "call_id": number.to_string(),
        "args": { "command": "make test" },
    });
    if kind == "tool_result" {
        event["outcome"] = "error".into();
        event["result"] = "failed".into();
    }
    event
}

/// How many steps of the session an engine has judged.
fn steps_of(engine: &Running) -> usize {
    let text = surface::answer(&engine.address, "/sessions/s");
    let json = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to)).unwrap_or_default();
    let session: Value = serde_json::from_str(json).unwrap_or_default();
    session["agents"][0]["steps"].as_array().map_or(0, Vec::len)
}

/// Asks again and again until the answer is so.
fn until_so(what: &str, mut ask: impl FnMut(usize) -> Value, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Deadline::after(PATIENCE);
    for number in 1_000.. {
        let answer = ask(number);
        if is_so(&answer) {
            return answer;
        }
        assert!(!deadline.is_over(), "no {what}: {answer}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
    unreachable!("it asks for ever")
}

#[test]
fn a_block_of_the_engine_is_obeyed_and_a_broker_that_dies_holds_up_nobody() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("guard", &proxy) else { return };
    let world = World::new(&broker.bootstrap, PARTITIONS);
    let scratch = Scratch::new("guard");
    let dir = scratch.0.to_string_lossy().into_owned();
    let engine = Running::start(&world, &scratch, &["run", "--data-dir", &dir, "--set", "mode=live"]);
    // A lane that joins later makes the others wait, and what waited is judged at once: the block would come with the nudge.
    let all = format!("{0} of {0} tasks run", 2 * PARTITIONS);
    let runs = |_| json!(surface::answer(&engine.address, "/readyz?verbose").contains(&all));
    until_so("all tasks of the engine", runs, |runs| runs == true);
    let arguments = ["guard", "--state", "kafka", "--listen", "127.0.0.1:0", "--stale-after-ms", "5000"];
    let guard = Running::start(&world, &scratch, &arguments);
    let is_ready = |_| json!(surface::answer(&guard.address, "/readyz").starts_with("HTTP/1.1 200 "));
    until_so("fresh verdicts", is_ready, |ready| ready == true);

    let mut nudges = Vec::new();
    let call = |number: usize, nudges: &mut Vec<Value>| {
        let before = guard.check(&event(number, "tool_call"));
        if before["decision"] == "allow" {
            let after = guard.check(&event(number, "tool_result"));
            assert_eq!((&after["decision"], &after["recorded"]), (&json!("allow"), &json!(true)), "{after}");
            nudges.extend((after["action"] == "nudge").then(|| after["command_id"].clone()));
            // One by one: what waits and is judged at once brings nudge and block together.
            until_so("step", |_| json!(steps_of(&engine)), |steps| steps.as_u64() > Some((number as u64 - 1_000).min(8)));
        }
        before
    };
    let refused = until_so("block", |number| call(number, &mut nudges), |before| before["decision"] == "deny");
    assert_eq!(
        (&refused["action"], &refused["state"]["source"], &refused["state"]["stale"]),
        (&json!("block"), &json!("kafka"), &json!(false))
    );
    assert!(!nudges.is_empty() && nudges.iter().enumerate().all(|(at, id)| !nudges[..at].contains(id)), "{nudges:?}");
    assert_eq!(guard.metric("blocks_obeyed_total"), 1);

    // What it sent lies where the engine looks for it, and the refusal is among it.
    let sent = until(&world, &world.options.topics.input, 2 * nudges.len() + 1);
    assert!(sent.iter().all(|seen| seen.key == b"s" && seen.partition == partition_of(b"s", PARTITIONS) as i32));
    let is_denied = |_| {
        let values = world.values(&world.options.topics.input);
        json!(values.iter().any(|value| value.contains("\"denied\"") && value.contains("\"command_id\"")))
    };
    until_so("refusal in the log", is_denied, |found| found == true);

    // A guard that starts now finds the block in the compacted topic.
    let second = Running::start(&world, &scratch, &arguments);
    until_so(
        "block of the second guard",
        |number| second.check(&event(number, "tool_call")),
        |before| before["decision"] == "deny",
    );

    drop(engine);
    drop(broker);
    let stale =
        until_so("stale answer", |number| guard.check(&event(number, "tool_call")), |before| before["state"]["stale"] == true);
    assert_eq!(stale["decision"], "deny", "a known block stands for a while: {stale}");
    let allowed = until_so(
        "answer without a block",
        |number| guard.check(&event(number, "tool_call")),
        |before| before["decision"] == "allow",
    );
    assert_eq!((&allowed["action"], &allowed["state"]["stale"]), (&json!("none"), &json!(true)));
    assert_eq!(guard.metric("connected"), 0);
}

/// Sends a signal to a process.
fn signal(child: &Child, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(sent.expect("kill").success());
}

#[test]
fn lanes_that_stand_still_are_late_verdicts_and_lift_no_block() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("guard-late");
    let dir = scratch.0.to_string_lossy().into_owned();
    let engine = Running::start(&world, &scratch, &["run", "--data-dir", &dir, "--set", "mode=live"]);
    let arguments = ["guard", "--state", "kafka", "--listen", "127.0.0.1:0", "--stale-after-ms", "5000"];
    let guard = Running::start(&world, &scratch, &arguments);
    // A transaction ends with a record that no group reads: a partition of nothing else is not late for it.
    let other = (0..).map(|number| format!("t{number}"));
    let mut other = other.filter(|key| partition_of(key.as_bytes(), PARTITIONS) != partition_of(b"s", PARTITIONS));
    let written = output(Destination::Events, &other.next().expect("a key"), &event(0, "tool_call").to_string());
    world.write_open(&world.options.topics.input, &written).end(true);
    until_so(
        "block",
        |number| {
            guard.check(&event(number, "tool_result"));
            guard.check(&event(number, "tool_call"))
        },
        |before| before["decision"] == "deny" && before["state"]["stale"] == false,
    );

    signal(&engine.child, "-STOP");
    let ask = |number| guard.check(&event(number + 10_000, "tool_call"));
    let late = until_so("late verdict", ask, |before| before["state"]["stale"] == true);
    assert_eq!(late["decision"], "deny", "{late}");
    assert!(late["state"]["lag_ms"].as_u64().is_some_and(|lag_ms| lag_ms > 5_000), "{late}");
    signal(&engine.child, "-CONT");
    let ask = |number| guard.check(&event(number + 20_000, "tool_call"));
    until_so("fresh verdict", ask, |before| before["state"]["stale"] == false);
}

#[test]
fn a_stop_on_the_topic_reaches_a_guard_through_two_processes_and_outlives_one_that_dies() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("guard-stop");
    let dir = |name: &str| scratch.0.join(name).to_string_lossy().into_owned();
    let engine = |name: &str| {
        let mut command = program(&world, &["run", "--data-dir", &dir(name), "--set", "mode=live"]);
        command.arg("--set").arg(format!("instance={name}"));
        Running::of(command, &scratch)
    };
    let (first, second) = (engine("lw-a"), engine("lw-b"));
    let guard = Running::start(&world, &scratch, &["guard", "--state", "kafka", "--listen", "127.0.0.1:0"]);
    let is_ready = |_| json!(surface::answer(&guard.address, "/readyz").starts_with("HTTP/1.1 200 "));
    until_so("fresh verdicts", is_ready, |ready| ready == true);
    let act = |arguments: &[&str]| {
        let output = program(&world, arguments).output().expect("the program");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let call = |number| guard.check(&event(number, "tool_call"));
    let is_stopped = |answer: &Value| answer["decision"] == "deny" && answer["reason"]["code"] == "stop";
    for (at, whom) in [&["--session", "s"][..], &["--agent", "main"], &["--all"]].into_iter().enumerate() {
        let yes: &[&str] = if whom == ["--all"] { &["--yes"] } else { &[] };
        act(&[&["stop"], whom, &["--reason", "drill", "--for", "1h"], yes].concat());
        until_so("stop", |number| call(number + 1_000 * at), is_stopped);
        act(&[&["release"], whom].concat());
        until_so("release", |number| call(number + 1_000 * at + 500), |answer| !is_stopped(answer));
    }
    act(&["stop", "--session", "s", "--reason", "drill", "--for", "1h"]);
    until_so("stop", |number| call(number + 10_000), is_stopped);
    // Nobody gets through at a guard that has just been started.
    let new = Running::start(&world, &scratch, &["guard", "--state", "kafka", "--listen", "127.0.0.1:0"]);
    let answer = new.check(&event(15_000, "tool_call"));
    assert!(is_stopped(&answer), "{answer}");
    // Whoever takes its partitions over knows of the stop by the changelog alone.
    drop(first);
    act(&["release", "--session", "s"]);
    until_so("release by the other process", |number| call(number + 20_000), |answer| !is_stopped(answer));
    drop(second);
    let commands = world.values(&world.options.topics.commands);
    let commands: Vec<Value> = commands.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    let of = |code: &str| commands.iter().filter(|command| command["reason"]["code"] == code).count();
    assert_eq!((of("stop"), of("release")), (4, 4), "each act once: {commands:?}");
}

#[test]
fn somebody_who_has_rows_written_all_the_time_lifts_no_block_at_a_guard() {
    let Some(bootstrap) = broker::bootstrap() else { return };
    let world = World::new(bootstrap, PARTITIONS);
    let scratch = Scratch::new("guard-busy");
    let dir = scratch.0.to_string_lossy().into_owned();
    let _engine = Running::start(&world, &scratch, &["run", "--data-dir", &dir, "--set", "mode=live"]);
    let arguments = ["guard", "--state", "kafka", "--listen", "127.0.0.1:0", "--stale-after-ms", "5000"];
    let guard = Running::start(&world, &scratch, &arguments);
    until_so(
        "block",
        |number| {
            guard.check(&event(number, "tool_result"));
            guard.check(&event(number, "tool_call"))
        },
        |before| before["decision"] == "deny" && before["state"]["stale"] == false,
    );
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let world = &world;
        scope.spawn(move || {
            let producer = world.writer();
            while !is_over.load(Ordering::Acquire) {
                for partition in 0..PARTITIONS as i32 {
                    let row =
                        BaseRecord::to(&world.options.topics.state).partition(partition).key("agent\u{1f}evil\u{1f}s\u{1f}a");
                    producer.send(row.payload("{}")).map_err(|(error, _)| error).expect("queued");
                }
                world.flush(&producer);
            }
        });
        // Longer than a block stands that nothing is heard about.
        let _ends = Ends(is_over);
        let until = Deadline::after(Duration::from_secs(20));
        for number in 10_000.. {
            let before = guard.check(&event(number, "tool_call"));
            assert_eq!((&before["decision"], &before["state"]["stale"]), (&json!("deny"), &json!(false)), "{before}");
            if until.is_over() {
                break;
            }
            thread::park_timeout(Duration::from_millis(100));
        }
    });
}

/// Ends a writer, also where the test has failed: it would be waited for.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Ends the agent, also where the test has failed: it would be waited for.
struct Stop<'a>(&'a Stubborn);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.stops.store(true, Ordering::Relaxed);
    }
}

/// An agent with a client that fails open: it loops in one session until it is refused, then in the next one.
struct Stubborn {
    address: String,
    stops: AtomicBool,
    /// The session in which it is.
    session: AtomicUsize,
    /// Answers without fresh verdicts, and calls without any answer.
    stale: AtomicUsize,
    unanswered: AtomicUsize,
    /// What its model was told: session, action, command.
    told: Mutex<Vec<(usize, String, String)>>,
}

impl Stubborn {
    fn new(address: String) -> Self {
        let zero = || AtomicUsize::new(0);
        Self {
            address,
            stops: AtomicBool::new(false),
            session: zero(),
            stale: zero(),
            unanswered: zero(),
            told: Mutex::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Vec<(usize, String, String)>> {
        self.told.lock().expect("not poisoned")
    }

    /// One question. None: nobody answered, or the answer was cut off, so that the call is allowed.
    fn ask(&self, event: &Value) -> Option<Value> {
        let can = ["deny", "context_after"];
        let check = json!({ "event": event, "client": { "can": can }, "deadline_ms": DEADLINE.as_millis() as u64 }).to_string();
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out");
        let head =
            format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", check.len());
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(check.as_bytes())).ok()?;
        let mut answer = String::new();
        if let Err(error) = stream.read_to_string(&mut answer) {
            let is_late = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            assert!(!is_late, "an answer came after the deadline, or never");
            return None;
        }
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        serde_json::from_str(body).ok()
    }

    /// A question whose answer is heeded; whether the call is refused.
    fn heeds(&self, event: &Value) -> bool {
        let Some(answer) = self.ask(event) else {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
            thread::park_timeout(Duration::from_millis(20));
            return false;
        };
        self.stale.fetch_add(usize::from(answer["state"]["stale"] == true), Ordering::Relaxed);
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        if let (Some(action), Some(id)) = (text("action").filter(|action| action != "none"), text("command_id")) {
            self.told().push((self.session.load(Ordering::Relaxed), action, id));
        }
        answer["decision"] == "deny"
    }

    fn run(&self) {
        for number in 0.. {
            if self.stops.load(Ordering::Relaxed) {
                return;
            }
            let session = self.session.load(Ordering::Relaxed);
            let of_session = |kind| {
                let mut event = event(number, kind);
                event["session_id"] = format!("stubborn-{session}").into();
                event
            };
            if self.heeds(&of_session("tool_call")) {
                self.session.fetch_add(1, Ordering::Relaxed);
            } else {
                self.heeds(&of_session("tool_result"));
            }
            thread::park_timeout(THINKING);
        }
    }

    /// Waits until a session that has not begun yet was nudged and then refused.
    fn until_obeying(&self, what: &str) {
        let first = self.session.load(Ordering::Relaxed) + 1;
        let has = |action: &str, session| self.told().iter().any(|(of, told, _)| *of == session && told == action);
        let is_obeying = || (first..=self.session.load(Ordering::Relaxed)).any(|at| has("nudge", at) && has("block", at));
        until_so(what, |_| json!(is_obeying()), |is_so| is_so == true);
    }
}

#[test]
fn a_guard_an_engine_and_a_broker_that_are_killed_in_the_middle_hold_up_nobody_and_say_nothing_twice() {
    let proxy = Proxy::new();
    let Some(broker) = broker::behind("guard-killed", &proxy) else { return };
    fs::write(broker.dir.join("keep"), "").expect("a mark");
    let world = World::new(&broker.bootstrap, PARTITIONS);
    let scratch = Scratch::new("guard-killed");
    let dir = scratch.0.to_string_lossy().into_owned();
    let start_engine = || Running::start(&world, &scratch, &["run", "--data-dir", &dir, "--set", "mode=live"]);
    let address = format!("127.0.0.1:{}", broker::free_port());
    let arguments = ["guard", "--state", "kafka", "--listen", &address, "--stale-after-ms", "5000"];
    let engine = start_engine();
    let guard = Running::start(&world, &scratch, &arguments);
    let agent = Stubborn::new(address.clone());
    thread::scope(|scope| {
        scope.spawn(|| agent.run());
        let stop = Stop(&agent);
        agent.until_obeying("obedience at first");

        drop(guard);
        until_so("call without a guard", |_| json!(agent.unanswered.load(Ordering::Relaxed)), |count| *count != json!(0));
        let guard = Running::start(&world, &scratch, &arguments);
        agent.until_obeying("obedience after the guard was killed");

        drop(engine);
        let engine = start_engine();
        agent.until_obeying("obedience after the engine was killed");

        let (broker_dir, bootstrap) = (broker.dir.clone(), broker.bootstrap.clone());
        drop(broker);
        let before = agent.stale.load(Ordering::Relaxed);
        until_so("stale answer", |_| json!(agent.stale.load(Ordering::Relaxed) > before), |is_so| is_so == true);
        let broker = broker::run(&broker_dir, &bootstrap, &["--ignore-formatted".to_owned()]);
        broker.wait_until_up();
        agent.until_obeying("obedience after the broker was killed");
        drop(stop);
        fs::remove_file(broker_dir.join("keep")).expect("its mark");
        drop((guard, engine));

        // One process of the guard ended, and with it what it knew of one nudge at most.
        let told = agent.told();
        let repeated: Vec<_> =
            told.iter().enumerate().filter(|(at, one)| told[..*at].contains(one)).map(|(_, one)| one).collect();
        println!("told {} times, {repeated:?} of it again", told.len());
        assert!(repeated.len() <= 1 && repeated.iter().all(|(_, action, _)| action == "nudge"), "{repeated:?}");
        let id = |command: &String| serde_json::from_str::<Value>(command).expect("a command")["id"].to_string();
        let mut ids: Vec<String> = world.values(&world.options.topics.commands).iter().map(id).collect();
        let all = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all, "a command was published twice");
    });
}
