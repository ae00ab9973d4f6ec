//! A tenant's budget over eight partitions and two processes that die: agents ask before each call and call where they may, until the budget is
//! used up; then it is raised, again and again. Nobody gets more than is on its way, and in the end the sum is that of all calls.
//!
//! `LOOPWARDEN_SPENDING_KILLS` says how many kills of processes and guards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{fmt, fs, thread};
use std::{path::Path, thread::JoinHandle, time::Duration};

use loopwarden::clock;
use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::event::{EventTime, Stage, TaskId, partition_of};
use loopwarden::store::{KeyFamily, StateStore, swarm};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::guards::{Guards, Place};
use crate::world::{PATIENCE, World};
use crate::{acts::BOUND_MS, auditor::Auditor, fleet::Dice, outcome::Spill, process::Process};
use crate::{broker, process, report};

const PARTITIONS: u32 = 8;
const PROCESSES: usize = 2;
const LANES: u32 = 2;
const GUARDS: usize = 2;
const AGENTS: usize = 16;
/// Calls that each raise allows beyond those that were made.
const LIMIT: u64 = 400;
/// What an agent thinks between two calls, at least. Milliseconds.
const THINKING_MS: u64 = 20;
/// How long everybody stays refused before the limit is raised.
const REFUSED: Duration = Duration::from_secs(1);
/// Mean time between two kills of processes. Milliseconds.
const PAUSE_MS: u64 = 4_000;
/// One kill of so many is that of the broker.
const BROKERS: u64 = 12;
const STANDSTILL: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(2);

/// A call that was let run. Unix ms.
type Begun = i64;

/// One limit, from the call that reached it to the raise.
#[derive(Debug, Clone)]
struct Round {
    #[expect(dead_code, reason = "shown while it runs")]
    limit: u64,
    /// From the beginning of the call that reached it to the commit of the block. Milliseconds.
    took_ms: i64,
    /// Calls above it.
    over: u64,
    /// Those of them that began too long after the commit.
    late: u64,
    /// From the raise to the first call that was let run. Milliseconds.
    resumed_ms: Option<i64>,
}

impl Round {
    /// Calls that can be on their way: those that all agents make until the block is committed, and until guards know of it.
    fn bound(&self) -> u64 {
        let turns = (self.took_ms + BOUND_MS).max(0) as u64 / THINKING_MS + 1;
        turns * AGENTS as u64
    }
}

/// One run.
pub(crate) struct Run {
    asked: u64,
    kills: u64,
    guards_killed: u64,
    brokers_killed: u64,
    rounds: Vec<Round>,
    made: u64,
    written: u64,
    /// What the state holds in the end.
    sum: u64,
    /// Blocks and their ends, of each limit.
    commands: Vec<(u64, usize)>,
    unblocks: usize,
    took: Duration,
    problems: Vec<String>,
}

/// An agent of the tenant: asks, and calls where it may. Without an answer it asks again.
fn call(agent: usize, places: &[Place], out: &Out, mut dice: Dice) {
    for number in 0_u64.. {
        if out.is_over.load(Ordering::Acquire) {
            return;
        }
        let session = format!("acme-{agent}");
        let mut event = json!({
            "id": format!("{agent}-{number}"), "kind": "tool_call", "session_id": session, "tenant": "acme", "tool": "Bash",
            "call_id": format!("{agent}-{number}"), "args": { "command": format!("step {number}") },
        });
        let place = &places[dice.below(places.len() as u64) as usize];
        let begun_ms = clock::now_ms();
        if place.ask(&event).is_ok_and(|answer| answer["decision"] == "allow") {
            out.made.lock().expect("not poisoned").push(begun_ms);
            event["kind"] = "tool".into();
            event["result"] = format!("done {number}").into();
            event["time"] = begun_ms.into();
            let value = event.to_string();
            let partition = partition_of(session.as_bytes(), PARTITIONS) as i32;
            let record = BaseRecord::to(&out.topic).partition(partition).key(&session).payload(&value);
            out.producer.send(record).map_err(|(error, _)| error).expect("queued");
            out.producer.poll(Duration::ZERO);
        }
        thread::park_timeout(Duration::from_millis(THINKING_MS + dice.below(THINKING_MS)));
    }
}

/// Where agents write to.
struct Out {
    producer: BaseProducer,
    topic: String,
    made: Mutex<Vec<Begun>>,
    is_over: AtomicBool,
}

/// Ends the agents, also where the run has failed.
struct Agents(Arc<Out>, Vec<JoinHandle<()>>);

impl Drop for Agents {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        for agent in self.1.drain(..) {
            let _ = agent.join();
        }
    }
}

/// The processes, and the file of their policy.
struct Group {
    world: World,
    root: std::path::PathBuf,
    processes: Vec<Process>,
    down: Vec<(usize, Deadline)>,
    reader: BaseConsumer,
    next: Vec<i64>,
    read: Stopwatch,
}

impl Group {
    fn new(bootstrap: &str, limit: u64) -> Self {
        let world = World::new(bootstrap, PARTITIONS);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("spending-{}", std::process::id()));
        process::remove(&root);
        fs::create_dir_all(&root).expect("a folder");
        set_limit(&root, limit);
        let policy = format!("policy={}", root.join("policy.toml").display());
        let program = process::program_of_run(&root);
        let start = |number: usize| {
            let mut process = Process::new(&root, &world.options, &format!("lw-{number}"), LANES, &[&policy]);
            process.program.clone_from(&program);
            process.start();
            process
        };
        let processes = (0..PROCESSES).map(start).collect();
        let next = vec![0; PARTITIONS as usize];
        let reader = reader(&world, &next);
        Self { world, root, processes, down: Vec::new(), reader, next, read: Stopwatch::start() }
    }

    /// Starts what is due, and what has ended by itself.
    fn tend(&mut self) {
        for (at, _) in self.down.extract_if(.., |(_, until)| until.is_over()) {
            self.processes[at].start();
        }
        for process in &mut self.processes {
            if process.ended().is_some() {
                process.start();
            }
        }
    }

    /// The next command that everybody may see.
    fn command(&mut self) -> Option<Value> {
        if self.read.elapsed() > STANDSTILL / 9 {
            self.reader = reader(&self.world, &self.next);
            self.read = Stopwatch::start();
        }
        let message = self.reader.poll(LOOK)?.ok()?;
        self.next[message.partition() as usize] = message.offset() + 1;
        serde_json::from_slice(message.payload()?).ok()
    }

    fn raise(&mut self, limit: u64) {
        set_limit(&self.root, limit);
        for process in &self.processes {
            process.signal("HUP");
        }
    }

    /// Waits until a stage has read up to these ends.
    fn settle(&mut self, stage: Stage, topic: &str) {
        let mut ends = vec![0_u64; PARTITIONS as usize];
        for record in self.world.read(topic) {
            ends[record.partition as usize] = record.offset as u64 + 1;
        }
        let watch = Stopwatch::start();
        let at = |world: &World, partition| world.committed(TaskId { stage, partition }).map_or(0, |next| next.0);
        while (0..PARTITIONS).any(|partition| at(&self.world, partition) < ends[partition as usize]) {
            assert!(watch.elapsed() < STANDSTILL, "{stage:?} does not come to its end: see {}", self.root.display());
            self.tend();
            thread::park_timeout(Duration::from_millis(100));
        }
    }
}

fn reader(world: &World, next: &[i64]) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &world.options.bootstrap_servers).set("group.id", format!("{}-payer", world.options.app));
    config.set("isolation.level", "read_committed").set("enable.auto.commit", "false").set("fetch.wait.max.ms", "20");
    let reader: BaseConsumer = config.set("reconnect.backoff.max.ms", "200").create().expect("a reader");
    let mut list = TopicPartitionList::new();
    for (partition, next) in next.iter().enumerate() {
        let topic = &world.options.topics.commands;
        list.add_partition_offset(topic, partition as i32, Offset::Offset(*next)).expect("an offset");
    }
    reader.assign(&list).expect("assigned");
    reader
}

/// Writes the policy, whole or not at all.
fn set_limit(root: &Path, calls: u64) {
    let text = format!(
        "profile = \"spending\"\nbase = \"default\"\n[[budget]]\nname = \"acme\"\nscope = \"tenant\"\nnames = [\"acme\"]\nper = \"week\"\n\
         mode = \"block\"\nwarn_share = 0.0\nnudge_share = 0.0\ncalls = {calls}\n"
    );
    let (new, path) = (root.join("policy.new"), root.join("policy.toml"));
    fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).expect("a policy");
}

/// Runs it. `None` where there is no broker, which is said aloud.
pub(crate) fn run(kills: u64, seed: u64) -> Option<Run> {
    let mut broker = broker::mortal("spending");
    let bootstrap = match &broker {
        Some(broker) => broker.bootstrap.clone(),
        None => broker::bootstrap()?.to_owned(),
    };
    let watch = Stopwatch::start();
    let mut dice = Dice::new(seed ^ 0x5e4d);
    let mut group = Group::new(&bootstrap, LIMIT);
    let auditor = Auditor::start(&group.world.options, PARTITIONS, Spill::new(&group.root, "found"));
    let ready = Deadline::after(PATIENCE);
    while !group.processes.iter().all(Process::is_ready) {
        assert!(!ready.is_over(), "not ready: see {}", group.root.display());
        group.tend();
        thread::park_timeout(LOOK);
    }
    let guards = Guards::of_topic(&group.root, &group.processes[0].program, &group.world.options, GUARDS);
    let mut guards = guards.disturbed(seed, 2 * PAUSE_MS);
    let (producer, topic) = (group.world.writer(), group.world.options.topics.input.clone());
    let out = Arc::new(Out { producer, topic, made: Mutex::default(), is_over: AtomicBool::new(false) });
    let agents = (0..AGENTS).map(|agent| {
        let (places, out, dice) = (guards.places(), Arc::clone(&out), Dice::new(seed ^ agent as u64));
        thread::spawn(move || call(agent, &places, &out, dice))
    });
    let agents = Agents(Arc::clone(&out), agents.collect());

    let (mut killed, mut brokers_killed, mut broker_back) = (0, 0, None::<Deadline>);
    let (mut limit, mut raised_ms) = (LIMIT, None::<i64>);
    let mut blocked: Option<(i64, Deadline)> = None;
    let (mut rounds, mut commands, mut unblocks) = (Vec::<Round>::new(), Vec::<(u64, usize)>::new(), 0);
    let mut next_kill = Deadline::after(Duration::from_millis(PAUSE_MS));
    let mut progress = Stopwatch::start();
    loop {
        group.tend();
        guards.tend();
        if broker_back.as_ref().is_some_and(Deadline::is_over) {
            broker_back = None;
            broker.iter_mut().for_each(crate::broker::Broker::revive);
        }
        let is_done = killed + guards.kills >= kills;
        if !is_done && next_kill.is_over() {
            next_kill = Deadline::after(Duration::from_millis(PAUSE_MS / 5 + dice.below(PAUSE_MS * 8 / 5)));
            let at = dice.below(PROCESSES as u64) as usize;
            if dice.below(BROKERS) == 0 && broker_back.is_none() && broker.is_some() {
                broker.iter_mut().for_each(crate::broker::Broker::kill);
                brokers_killed += 1;
                broker_back = Some(Deadline::after(Duration::from_millis(dice.below(1_500))));
            } else if group.processes[at].is_running() {
                group.processes[at].kill();
                killed += 1;
                group.down.push((at, Deadline::after(Duration::from_millis(dice.below(1_000)))));
            }
        }
        if is_done {
            guards.calm();
        }
        if let Some(command) = group.command()
            && command["reason"]["evidence"]["budget"] == "acme"
            && command["action"] == "block"
        {
            let threshold = command["reason"]["evidence"]["threshold"].as_u64().expect("a limit");
            match commands.iter_mut().find(|(of, _)| *of == threshold) {
                Some((_, times)) => *times += 1,
                None => commands.push((threshold, 1)),
            }
            if threshold == limit && blocked.is_none() {
                blocked = Some((clock::now_ms(), Deadline::after(REFUSED)));
            }
            progress = Stopwatch::start();
        } else if let Some((seen_ms, until)) = &blocked
            && until.is_over()
        {
            let round = round(&out, limit, *seen_ms, raised_ms);
            println!("{:>4} s: {} kills, {round:?}", watch.elapsed().as_secs(), killed + guards.kills);
            rounds.push(round);
            blocked = None;
            if is_done {
                break;
            }
            // Above what was made: a limit that is used up already lifts nothing, and says nothing new.
            limit = limit.max(out.made.lock().expect("not poisoned").len() as u64) + LIMIT;
            raised_ms = Some(clock::now_ms());
            group.raise(limit);
        }
        assert!(progress.elapsed() < STANDSTILL, "nothing is blocked at {limit}: see {}", group.root.display());
    }
    drop(agents);
    broker.iter_mut().filter(|_| broker_back.is_some()).for_each(crate::broker::Broker::revive);
    out.producer.flush(PATIENCE).expect("delivered");
    let (input, sums) = (group.world.options.topics.input.clone(), group.world.options.input_topic(Stage::Swarm));
    group.settle(Stage::Session, &input);
    group.settle(Stage::Swarm, &sums);
    while !group.processes.iter().all(Process::is_running) {
        group.tend();
        thread::park_timeout(LOOK);
    }
    for process in &mut group.processes {
        process.finish("TERM");
    }
    let values = group.world.values(&group.world.options.topics.commands);
    for text in &values {
        let command: Value = serde_json::from_str(text).expect("a command");
        unblocks += usize::from(command["action"] == "unblock" && command["reason"]["code"] == "policy");
    }
    let written = group.world.read(&input).len() as u64;
    let ids: BTreeSet<&String> = values.iter().collect();
    let mut problems = Vec::new();
    if ids.len() != values.len() {
        problems.push("a command came twice".to_owned());
    }
    let audit = read_whole(auditor, &group.world);
    problems.extend(audit.faults.iter().map(|(kind, words)| format!("{kind}: {words}")));
    let made = out.made.lock().expect("not poisoned").len() as u64;
    let run = Run {
        asked: kills,
        kills: killed,
        guards_killed: guards.kills,
        brokers_killed,
        rounds,
        made,
        written,
        sum: sum(&audit),
        commands,
        unblocks,
        took: watch.elapsed(),
        problems,
    };
    if run.is_good() {
        drop(guards);
        process::remove(&group.root);
    }
    Some(run)
}

/// What came of a limit at which everybody is refused by now.
fn round(out: &Out, limit: u64, seen_ms: i64, raised_ms: Option<i64>) -> Round {
    let mut made = out.made.lock().expect("not poisoned").clone();
    made.sort_unstable();
    let reached_ms = made.get(limit as usize - 1).copied().unwrap_or(seen_ms);
    Round {
        limit,
        took_ms: seen_ms - reached_ms,
        over: (made.len() as u64).saturating_sub(limit),
        late: made.iter().filter(|begun_ms| **begun_ms >= seen_ms + BOUND_MS).count() as u64,
        resumed_ms: raised_ms.and_then(|raised_ms| Some(made.iter().find(|begun_ms| **begun_ms >= raised_ms)? - raised_ms)),
    }
}

/// What the auditor saw, once it has seen all that processes have written.
fn read_whole(auditor: Auditor, world: &World) -> crate::auditor::Audit {
    let options = &world.options;
    let topics = [
        options.topics.commands.clone(),
        options.topics.dead_letters.clone(),
        options.changelog_topic(Stage::Session),
        options.changelog_topic(Stage::Swarm),
    ];
    let mut ends = BTreeMap::<(String, i32), i64>::new();
    for topic in topics {
        for record in world.read(&topic) {
            ends.insert((topic.clone(), record.partition), record.offset + 1);
        }
    }
    let watch = Stopwatch::start();
    while !ends.iter().all(|(place, end)| auditor.look().read.get(place).is_some_and(|next| next >= end)) {
        assert!(watch.elapsed() < STANDSTILL, "the auditor does not come to an end");
        thread::park_timeout(Duration::from_millis(50));
    }
    auditor.finish()
}

/// Calls that all windows of the budget have in the state.
fn sum(audit: &crate::auditor::Audit) -> u64 {
    let mut calls = 0;
    for partition in 0..PARTITIONS {
        let task = TaskId { stage: Stage::Swarm, partition };
        let store = audit.restored(task);
        let mut keys = Vec::new();
        let scanned = store.scan(task, KeyFamily::SwarmCounter, &[], &[], &mut |key, _| {
            keys.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        });
        scanned.expect("memory");
        for key in keys {
            let counter = swarm::load(&store, task, &key).expect("a counter").expect("a counter").counter;
            calls += counter.panes.values().filter_map(|pane| pane.used).map(|used| used.calls).sum::<u64>();
        }
    }
    calls
}

impl Run {
    pub(crate) fn is_good(&self) -> bool {
        self.kills + self.guards_killed >= self.asked
            && self.problems.is_empty()
            && self.sum == self.made
            && self.written >= self.made
            && self.commands.len() == self.rounds.len()
            && self.commands.iter().all(|(_, times)| *times == 1)
            && self.unblocks + 1 == self.rounds.len()
    }

    /// Whether no call began too long after the commit of a block, and none but those that were on their way came above a limit.
    pub(crate) fn is_in_time(&self) -> bool {
        self.rounds.iter().all(|round| round.late == 0 && round.over <= round.bound())
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, kills, guards_killed, brokers_killed, rounds, made, written, sum, unblocks, problems, .. } = self;
        let title = if !self.is_good() {
            "FAILED"
        } else if self.is_in_time() {
            "held"
        } else {
            "held, but some calls came late"
        };
        writeln!(f, "# Budget of a tenant under kills: {title}\n")?;
        writeln!(f, "    LOOPWARDEN_SPENDING_KILLS={asked} cargo test --release --locked --test chaos\n")?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", report::machine())?;
        writeln!(
            f,
            "| processes | {PROCESSES} of {LANES} lanes, {PARTITIONS} partitions; {GUARDS} guards; {AGENTS} agents of the tenant |"
        )?;
        writeln!(f, "| `kill -9` of processes, guards, the broker | {kills}, {guards_killed}, {brokers_killed} |")?;
        writeln!(f, "| calls that guards let run; events in the topic | {made}; {written} |")?;
        writeln!(f, "| calls in the sum of the budget | **{sum}** |")?;
        writeln!(
            f,
            "| limits, each {LIMIT} calls above what was made; blocks lifted by a raise | {}; {unblocks} |",
            rounds.len()
        )?;
        let twice = self.commands.iter().filter(|(_, times)| *times != 1).count();
        writeln!(f, "| limits without exactly one block | **{twice}** |")?;
        let most = |of: fn(&Round) -> i64| {
            let mut found: Vec<i64> = rounds.iter().map(of).collect();
            found.sort_unstable();
            let at = |part: usize| found.get((found.len().saturating_sub(1)) * part / 100).copied().unwrap_or_default();
            format!("median {}, most {}", at(50), at(100))
        };
        writeln!(f, "| calls above a limit | {} |", most(|round| round.over as i64))?;
        writeln!(f, "| ms from the call that reached it to the commit of the block | {} |", most(|round| round.took_ms))?;
        let beyond = rounds.iter().filter(|round| round.over > round.bound()).count();
        writeln!(f, "| limits exceeded by more than all agents can call until then | **{beyond}** |")?;
        let late: u64 = rounds.iter().map(|round| round.late).sum();
        writeln!(f, "| calls begun later than {BOUND_MS} ms after the commit of a block, and let run | **{late}** |")?;
        writeln!(f, "| ms from a raise to the next call | {} |", most(|round| round.resumed_ms.unwrap_or_default()))?;
        writeln!(f, "| in all | {} s |", self.took.as_secs())?;
        for words in problems.iter().take(20) {
            writeln!(f, "\n**{words}**")?;
        }
        Ok(())
    }
}
