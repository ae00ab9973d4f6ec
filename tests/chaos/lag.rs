//! Partitions that lag: real events of months, sorted by time, fed within a minute, while processes die every one to two seconds. What the
//! partitions have read then lies days of event time apart. Operators stop agents and release them meanwhile, somebody answers commands,
//! and budgets are used up. The commands must be those of a replay of the same topic, each once.
//!
//! `LOOPWARDEN_LAG_RUNS` says how many runs (`make lag`), `LOOPWARDEN_LAG_EVENTS` how many events each. The events are in
//! `../shared/data`; where they are not, it is skipped. `LOOPWARDEN_CHAOS_OLD` names an earlier program to be run instead.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{collections::BTreeMap, sync::mpsc::sync_channel, time::Duration};
use std::{fmt, fs, io, thread};

use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::event::{EventTime, Stage, TaskId, partition_of};
use loopwarden::{clock, log::kafka::TopicNames};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::environment::told_nothing;
use crate::people::{Answering, SENT_MAX, Shared, watch_topics};
use crate::process::{Process, this_program};
use crate::world::{PATIENCE, World};
use crate::{feeder::Between, fleet::Dice, report};

const PARTITIONS: u32 = 12;
const PROCESSES: usize = 2;
const LANES: u32 = 2;
/// Events that are fed.
const EVENTS: usize = 24_000;
/// How long that takes.
const FEED: Duration = Duration::from_secs(40);
/// Without any progress for so long nothing will come any more.
const STANDSTILL: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(5);
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/lag.toml");

/// One event of so many comes with an act of an operator.
const ACTED: u64 = 60;
/// Stops at a time.
const STOPPED_MAX: usize = 20;
/// How long they last at most, by the clock. Milliseconds.
const STOP_MS: i64 = 86_400_000;

/// An event: session, JSON.
type Event = (String, String);

/// What a run came to.
struct Run {
    seed: u64,
    events: usize,
    kills: u32,
    live: usize,
    of_swarms: usize,
    replayed: usize,
    /// Stops and releases, and answers to commands.
    acts: usize,
    answers: u64,
    doubled: usize,
    /// Of the replay, not of the live run.
    missing: Vec<String>,
    /// The other way round.
    more: Vec<String>,
    took: Duration,
}

impl Run {
    fn is_good(&self) -> bool {
        self.doubled == 0 && self.missing.is_empty() && self.more.is_empty() && self.live > 0
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, events, kills, live, of_swarms, replayed, acts, answers, doubled, missing, more, took } = self;
        write!(
            f,
            "lag, seed {seed}: {events} events, {acts} stops and releases, {answers} answers, {kills} kills, {live} commands, {of_swarms} of them to \
             swarms; a replay gives {replayed}; {doubled} doubled, {} differ; {} s",
            missing.len() + more.len(),
            took.as_secs()
        )?;
        missing.iter().chain(more).take(10).try_for_each(|words| write!(f, "\n  {words}"))
    }
}

/// Runs, one after the other; whether all are good. Skipped, and said why, where there are no recorded events.
pub(crate) fn runs(bootstrap: &str, runs: u64, events: Option<u64>) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/events.ndjson.zst");
    if !path.is_file() {
        println!("skipped: there are no recorded events at ../shared/data/events.ndjson.zst");
        return true;
    }
    let events = read(&path, events.map_or(EVENTS, |events| events as usize)).expect("recorded events");
    let mut page = Page { asked: runs, runs: Vec::new() };
    for seed in 1..=runs {
        let run = run(bootstrap, &events, seed);
        println!("{run}");
        page.runs.push(run);
    }
    report::keep("-lag", &page.to_string());
    page.is_good()
}

/// All runs, as they are kept.
struct Page {
    asked: u64,
    runs: Vec<Run>,
}

impl Page {
    fn is_good(&self) -> bool {
        self.runs.iter().all(Run::is_good)
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = if self.is_good() { "the same commands" } else { "FAILED" };
        writeln!(f, "# Partitions that lag, with stops, answers and budgets: {title}\n")?;
        writeln!(f, "    LOOPWARDEN_LAG_RUNS={} cargo test --release --locked --test chaos\n", self.asked)?;
        writeln!(
            f,
            "{}, {}; {PROCESSES} processes of {LANES} lanes, {PARTITIONS} partitions\n",
            report::now(),
            report::machine()
        )?;
        writeln!(
            f,
            "| seed | events | stops, releases | answers | `kill -9` | commands | to swarms | a replay gives | doubled | differ |"
        )?;
        writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
        for Run { seed, events, kills, live, of_swarms, replayed, acts, answers, doubled, missing, more, .. } in &self.runs {
            let differ = missing.len() + more.len();
            writeln!(
                f,
                "| {seed} | {events} | {acts} | {answers} | {kills} | {live} | {of_swarms} | {replayed} | **{doubled}** | **{differ}** |"
            )?;
        }
        Ok(())
    }
}

fn read(path: &Path, count: usize) -> io::Result<Vec<Event>> {
    let text = String::from_utf8(zstd::decode_all(fs::File::open(path)?)?).expect("text");
    let mut events: Vec<(EventTime, Event)> = Vec::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line)?;
        let time = event["time"].as_str().and_then(EventTime::parse_rfc3339).expect("a time");
        events.push((time, (event["session_id"].as_str().expect("a session").to_owned(), line.to_owned())));
    }
    events.sort_by_key(|(time, _)| *time);
    Ok(events.into_iter().map(|(_, event)| event).take(count).collect())
}

/// A group, its events and its processes.
struct Lag {
    world: World,
    producer: BaseProducer,
    processes: Vec<Process>,
    /// Events of each partition so far.
    ends: BTreeMap<u32, u64>,
}

impl Lag {
    fn new(bootstrap: &str, root: &Path) -> Self {
        let world = World::new(bootstrap, PARTITIONS);
        let producer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create()
            .expect("a producer");
        let program = std::env::var_os("LOOPWARDEN_CHAOS_OLD").map_or_else(this_program, PathBuf::from);
        let processes = (0..PROCESSES).map(|number| {
            let policy = format!("policy={POLICY}");
            let sets = [&policy, "time.lateness_ms=60000"];
            let mut process = Process::new(root, &world.options, &format!("lw-{number}"), LANES, &sets);
            process.program.clone_from(&program);
            process.start();
            process
        });
        let processes = processes.collect();
        Self { world, producer, processes, ends: BTreeMap::new() }
    }

    /// Starts again what has ended by itself.
    fn keep_up(&mut self) {
        for process in &mut self.processes {
            if process.ended().is_some() {
                process.start();
            }
        }
    }

    fn feed(&mut self, (session, json): &Event) {
        self.write(session, json);
    }

    /// Writes an event under its key.
    fn write(&mut self, session: &str, json: &str) {
        let partition = partition_of(session.as_bytes(), PARTITIONS);
        let topic = self.world.options.topics.input.clone();
        let record = BaseRecord::to(&topic).partition(partition as i32).key(session.as_bytes()).payload(json.as_bytes());
        self.producer.send(record).map_err(|(error, _)| error).expect("queued");
        self.producer.poll(Duration::ZERO);
        *self.ends.entry(partition).or_default() += 1;
    }

    /// Waits until a stage stands at these ends.
    fn settle(&mut self, stage: Stage, ends: &BTreeMap<u32, u64>) {
        let mut last = (0, Stopwatch::start());
        loop {
            self.keep_up();
            let at = |partition: &u32| self.world.committed(TaskId { stage, partition: *partition }).map_or(0, |next| next.0);
            let read: BTreeMap<u32, u64> = ends.keys().map(|partition| (*partition, at(partition))).collect();
            if ends.iter().all(|(partition, end)| read[partition] >= *end) {
                return;
            }
            let sum: u64 = read.values().sum();
            if sum != last.0 {
                last = (sum, Stopwatch::start());
            }
            assert!(last.1.elapsed() < STANDSTILL, "{stage:?} stands at {read:?} of {ends:?}");
            thread::park_timeout(Duration::from_millis(200));
        }
    }
}

/// Operators who act between recorded events: whom they have stopped, and how often they have acted.
struct Acting {
    dice: Dice,
    stopped: Vec<Value>,
    acts: usize,
}

impl Acting {
    /// An act that may come with an event: a stop of whom it is about, or the release of somebody who is stopped.
    fn act(&mut self, (session, json): &Event) -> Option<(String, String)> {
        if self.dice.below(ACTED) != 0 {
            return None;
        }
        self.acts += 1;
        let event: Value = serde_json::from_str(json).expect("an event");
        let (id, actor) = (format!("act-{}", self.acts), json!({ "actor": "operator" }));
        let mut act = if self.stopped.len() > STOPPED_MAX || (!self.stopped.is_empty() && self.dice.below(2) == 0) {
            let at = self.dice.below(self.stopped.len() as u64) as usize;
            let mut act = self.stopped.swap_remove(at);
            act["kind"] = "release".into();
            act["until"].take();
            act
        } else {
            let mut act = json!({ "kind": "stop", "until": clock::now_ms() + STOP_MS, "reason": format!("drill {}", self.acts) });
            let (swarm, agent, tenant) = (&event["swarm_id"], &event["agent"]["id"], &event["tenant"]);
            let (scope, key) = match self.dice.below(5) {
                1 if agent.is_string() => ("agent", agent.as_str()),
                2 if swarm.is_string() => ("swarm", swarm.as_str()),
                3 if tenant.is_string() => ("tenant", tenant.as_str()),
                4 => ("all", Some("*")),
                _ => ("session", Some(session.as_str())),
            };
            act["scope"] = scope.into();
            act["session_id"] = key.into();
            for (name, value) in [("agent", &event["agent"]), ("swarm_id", swarm), ("tenant", tenant)] {
                if !value.is_null() && scope != "all" {
                    act[name] = value.clone();
                }
            }
            self.stopped.push(act.clone());
            act
        };
        (act["id"], act["time"], act["labels"]) = (id.into(), event["time"].clone(), actor);
        Some((act["session_id"].as_str()?.to_owned(), act.to_string()))
    }
}

fn run(bootstrap: &str, events: &[Event], seed: u64) -> Run {
    let watch = Stopwatch::start();
    let mut dice = Dice::new(seed ^ 0x1a6);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lag-{}-{seed}", std::process::id()));
    let mut lag = Lag::new(bootstrap, &root);
    let deadline = Deadline::after(PATIENCE);
    while !lag.processes.iter().all(Process::is_ready) {
        assert!(!deadline.is_over(), "not ready within {PATIENCE:?}: see {}", root.display());
        lag.keep_up();
        thread::park_timeout(LOOK);
    }
    let fed = Stopwatch::start();
    let mut kills = 0;
    let mut next_kill = Deadline::after(Duration::from_millis(1_000 + dice.below(1_000)));
    let mut down: Vec<(usize, Deadline)> = Vec::new();
    let mut acting = Acting { dice: Dice::new(seed ^ 0xac7), stopped: Vec::new(), acts: 0 };
    let (submit, answers) = sync_channel(SENT_MAX);
    let (shared, options) = (Shared::default(), lag.world.options.clone());
    let (looked, answering) = (shared.clone(), Answering::new(submit, seed));
    let watcher = thread::spawn(move || watch_topics(&options, PARTITIONS, &looked, answering));
    for (at, event) in events.iter().enumerate() {
        let due = FEED.mul_f64(at as f64 / events.len() as f64);
        while fed.elapsed() < due {
            thread::park_timeout(LOOK);
        }
        lag.feed(event);
        if let Some((key, act)) = acting.act(event) {
            lag.write(&key, &act);
        }
        for Between { key, make, .. } in answers.try_iter() {
            let text = make(time_of(event));
            lag.write(&key, &text);
        }
        if next_kill.is_over() {
            let victim = dice.below(PROCESSES as u64) as usize;
            if down.iter().all(|(at, _)| *at != victim) {
                lag.processes[victim].kill();
                kills += 1;
                down.push((victim, Deadline::after(Duration::from_millis(dice.below(1_000)))));
            }
            next_kill = Deadline::after(Duration::from_millis(1_000 + dice.below(1_000)));
        }
        for (back, _) in down.extract_if(.., |(_, until)| until.is_over()) {
            lag.processes[back].start();
        }
        lag.keep_up();
    }
    for (back, _) in down {
        lag.processes[back].start();
    }
    shared.blind();
    watcher.join().expect("the watcher");
    lag.producer.flush(PATIENCE).expect("delivered");
    let ends = lag.ends.clone();
    lag.settle(Stage::Session, &ends);
    let mut sums = BTreeMap::new();
    for record in lag.world.read(&lag.world.options.input_topic(Stage::Swarm)) {
        sums.insert(record.partition as u32, record.offset as u64 + 1);
    }
    lag.settle(Stage::Swarm, &sums);
    let answered = shared.ledger().answers;
    let mut live: BTreeMap<String, (u32, String)> = BTreeMap::new();
    for command in lag.world.values(&lag.world.options.topics.commands) {
        let (id, words) = described(&command);
        live.entry(id).or_insert((0, words)).0 += 1;
    }
    let replayed: BTreeMap<String, String> = replay(&lag.world, &root).lines().map(described).collect();
    for process in &mut lag.processes {
        process.finish("TERM");
    }
    let run = Run {
        seed,
        events: events.len(),
        kills,
        live: live.len(),
        of_swarms: live.values().filter(|(_, words)| words.contains("swarm")).count(),
        replayed: replayed.len(),
        acts: acting.acts,
        answers: answered,
        doubled: live.values().filter(|(times, _)| *times > 1).count(),
        missing: replayed
            .iter()
            .filter(|(id, _)| !live.contains_key(*id))
            .map(|(id, words)| format!("missing {id} {words}"))
            .collect(),
        more: live
            .iter()
            .filter(|(id, _)| !replayed.contains_key(*id))
            .map(|(id, (_, words))| format!("more {id} {words}"))
            .collect(),
        took: watch.elapsed(),
    };
    if run.is_good() {
        let _ = fs::remove_dir_all(&root);
    }
    run
}

/// Event time of a recorded event. Unix ms.
fn time_of((_, json): &Event) -> i64 {
    let event: Value = serde_json::from_str(json).expect("an event");
    event["time"].as_str().and_then(EventTime::parse_rfc3339).expect("a time").0
}

/// Id of a command, and a few words about it.
fn described(command: &str) -> (String, String) {
    let command: Value = serde_json::from_str(command).expect("a command");
    let field = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
    let words =
        format!("{} {} {} {}", field("action"), command["scope"]["kind"], field("swarm_id"), command["reason"]["detector"]);
    (field("id"), words)
}

fn replay(world: &World, root: &Path) -> String {
    let config = root.join("replay.toml");
    let options = &world.options;
    let TopicNames { input, .. } = &options.topics;
    let text = format!(
        "instance = \"somebody\"\n[time]\nlateness_ms = 60000\n[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{}\"\n",
        options.bootstrap_servers, options.app
    );
    fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(this_program());
    told_nothing(&mut command);
    command.args(["replay", "--policy", POLICY, "--output", "ndjson", "--topic", input, "--config"]).arg(&config);
    let output = command.stdin(Stdio::null()).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
