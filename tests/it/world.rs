//! A small world for tests of the runtime: the broker in memory, lanes over it, one clock, and the oracles of the reliability tests.

use crate::golden::RULES;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::{cell::Cell, rc::Rc, time::Duration};

use loopwarden::engine::{Effects, Input, Session, SessionEngine, SubjectKey, TimerKind};
use loopwarden::event::{EventKind, NextOffset, Record, Stage, TaskId};
use loopwarden::log::{Changelog, CommitOutcome, Flow, InputEnd, Log, LogError, LogEvent, Output, Partitions};
use loopwarden::store::{
    Change, KeyFamily, LoadBatch, MemoryStore, Position, ScanFlow, StateKey, StateStore, StoreError, chain, state_hash,
};
use loopwarden::task::{
    Clock, CommitTrigger, Exit, InlineRestorer, Lane, LaneSettings, Leases, Observer, Order, Pace, ProcessMode, Turn,
};
use loopwarden::{config::policy::load_with_overrides, policy::Policy};
use loopwarden_sim::{Faults, MemoryBroker, MemoryConfig, MemoryLog, MemoryRecord, MemoryTopic};

pub(crate) const APP: &str = "loopwarden";
pub(crate) const PARTITIONS: u32 = 3;
/// Families of the session stage.
pub(crate) const FAMILIES: [KeyFamily; 6] =
    [KeyFamily::Position, KeyFamily::Head, KeyFamily::Page, KeyFamily::Timer, KeyFamily::Swarm, KeyFamily::Tenants];
/// Wall clock at virtual time 0: long after every record.
pub(crate) const WALL_MS: i64 = 1_800_000_000_000;
/// Virtual time after which a world that is not settled never will be.
const PATIENCE_MS: i64 = 120_000;

pub(crate) fn session_task(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

/// The shipped rules with short lives, so that timers of every kind fire in a small input.
pub(crate) fn policy() -> Arc<Policy> {
    static POLICY: OnceLock<Arc<Policy>> = OnceLock::new();
    Arc::clone(POLICY.get_or_init(|| policy_with(RULES, 0)))
}

pub(crate) fn policy_with(profile: &str, more_history: u32) -> Arc<Policy> {
    let text = format!(
        "history_steps = {}\nopen_call_ms = 4000\nidle_ms = 20000\nended_ms = 2000\n[episodes]\nnudge_ms = 8000\nblock_ms = 8000\n",
        100 + more_history
    );
    let overrides: toml::Table = text.parse().unwrap();
    Arc::new(load_with_overrides(profile, &overrides).unwrap())
}

/// Time of the broker.
pub(crate) struct BrokerClock(pub(crate) MemoryBroker);

impl Clock for BrokerClock {
    fn mono_us(&self) -> u64 {
        self.0.now_ms() as u64 * 1_000
    }

    fn wall_ms(&self) -> i64 {
        WALL_MS + self.0.now_ms()
    }
}

/// Panics where an event or a timer says so: after the engine has changed the session.
pub(crate) struct Explosive;

impl Observer for Explosive {
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, _session: &Session, _before: u64, _effects: &Effects) {
        if matches!(input, Input::Event(event, _) if matches!(&event.kind, EventKind::Tool(call, _) if call.tool == "die")) {
            // Whoever feeds this runs in a process of its own.
            std::process::abort();
        }
        let explodes = match input {
            Input::Event(event, _) => matches!(&event.kind, EventKind::Tool(call, _) if call.tool == "boom"),
            Input::Timer(TimerKind::OpenCalls, _) => {
                matches!(subject, SubjectKey::Agent { session_id, .. } if session_id == "timer-boom")
            }
            _ => false,
        };
        if explodes {
            // Like a panic, but without a line on stderr.
            std::panic::resume_unwind(Box::new("boom"));
        }
    }
}

/// A store whose commit can be told to fail: the disk is full at S7.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestStore {
    pub(crate) memory: MemoryStore,
    /// Commits until one fails; `None` = never.
    pub(crate) fails_in: Arc<std::sync::Mutex<Option<u32>>>,
}

impl StateStore for TestStore {
    fn handle(&self) -> Box<dyn StateStore> {
        Box::new(self.clone())
    }

    fn get(&self, task: TaskId, key: &StateKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.memory.get(task, key)
    }

    fn scan(
        &self,
        task: TaskId,
        family: KeyFamily,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ScanFlow,
    ) -> Result<(), StoreError> {
        self.memory.scan(task, family, prefix, from, visit)
    }

    fn tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        self.memory.tasks()
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        let mut fails_in = self.fails_in.lock().unwrap();
        match fails_in.as_mut() {
            Some(0) => {
                *fails_in = None;
                return Err(StoreError::DiskFull("no space left".to_owned()));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        drop(fails_in);
        self.memory.commit(changes)
    }

    fn load(&mut self, batch: &mut LoadBatch) -> Result<(), StoreError> {
        self.memory.load(batch)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.memory.flush()
    }

    fn wipe(&mut self, task: TaskId) -> Result<(), StoreError> {
        self.memory.wipe(task)
    }
}

/// What brokers refuse for now, while polls go on.
#[derive(Clone, Default)]
pub(crate) struct Refuses {
    pub(crate) seeks: Rc<Cell<bool>>,
    pub(crate) reopens: Rc<Cell<bool>>,
}

fn unless(refused: &Cell<bool>) -> Result<(), LogError> {
    if refused.get() { Err(LogError::Transient("refused".to_owned())) } else { Ok(()) }
}

/// The log of a lane; a sloppy one begins a few records too early, as a client may after a seek.
pub(crate) struct TestLog {
    pub(crate) memory: MemoryLog,
    rereads: u64,
    refuses: Refuses,
    keeps_changelog: bool,
}

impl Log for TestLog {
    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        self.memory.poll(wait, handler)
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.memory.assign(tasks)
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        unless(&self.refuses.seeks)?;
        self.memory.start(task, NextOffset(next.0.saturating_sub(self.rereads)))
    }

    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.memory.pause(task)
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.memory.unassign(tasks)
    }

    fn stage(&mut self, output: Output) {
        self.memory.stage(output);
    }

    fn discard(&mut self) {
        self.memory.discard();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        self.memory.commit(offsets)
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        unless(&self.refuses.reopens)?;
        self.memory.reopen()
    }

    fn rejoin(&mut self, cause: &str) -> Result<(), LogError> {
        self.memory.rejoin(cause)
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        if self.keeps_changelog { self.memory.changelog() } else { Ok(None) }
    }

    fn keeps_changelog(&self) -> bool {
        self.keeps_changelog
    }

    fn commits_state(&self) -> bool {
        self.memory.commits_state()
    }

    fn swarm_partitions(&self) -> u32 {
        self.memory.swarm_partitions()
    }

    fn input_ends(&self) -> Vec<InputEnd> {
        self.memory.input_ends()
    }

    fn owner(&self) -> &str {
        self.memory.owner()
    }

    fn close(&mut self, leave: bool) -> Result<(), LogError> {
        self.memory.close(leave)
    }
}

pub(crate) type TestLane = Lane<TestLog>;

/// One process: a store, its leases, lanes that may be dead.
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) store: TestStore,
    pub(crate) leases: Leases,
    pub(crate) lanes: Vec<Option<TestLane>>,
}

/// Everything.
pub(crate) struct TestWorld {
    pub(crate) broker: MemoryBroker,
    pub(crate) settings: Arc<LaneSettings>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) processes: Vec<Process>,
    /// What happened, for comparing two runs.
    pub(crate) trace: Vec<String>,
    /// Every task there is.
    pub(crate) tasks: Vec<TaskId>,
    /// Lanes that ended by themselves, other than by a scripted death.
    pub(crate) exits: Vec<Exit>,
    /// Whether a process whose lane ended is started again.
    pub(crate) restarts: bool,
    /// How many records too early a task begins.
    pub(crate) rereads: u64,
    /// What all logs refuse.
    pub(crate) refuses: Refuses,
    /// Whether state goes into a changelog. As in a replay it does not.
    pub(crate) keeps_changelog: bool,
}

pub(crate) fn settings(trigger: CommitTrigger) -> LaneSettings {
    LaneSettings { mode: ProcessMode::Live, trigger, lateness_ms: 1_000, swarm: true, ..LaneSettings::default() }
}

pub(crate) fn config(poll_records_max: usize) -> MemoryConfig {
    MemoryConfig { partitions: Partitions { session: PARTITIONS, swarm: 0 }, poll_records_max, ..MemoryConfig::default() }
}

impl TestWorld {
    pub(crate) fn new(config: MemoryConfig, settings: LaneSettings) -> Self {
        let of = |stage| (0..config.partitions.of(stage)).map(move |partition| TaskId { stage, partition });
        let tasks = of(Stage::Session).chain(of(Stage::Swarm)).collect();
        Self {
            tasks,
            broker: MemoryBroker::new(config, Faults::none()),
            settings: Arc::new(settings),
            policy: policy(),
            processes: Vec::new(),
            trace: Vec::new(),
            exits: Vec::new(),
            restarts: true,
            rereads: 0,
            refuses: Refuses::default(),
            keeps_changelog: true,
        }
    }

    /// Starts a process with an empty disk.
    pub(crate) fn start(&mut self, name: &str, lanes: usize) -> usize {
        self.start_on(name, lanes, TestStore::default())
    }

    pub(crate) fn start_on(&mut self, name: &str, lanes: usize, store: TestStore) -> usize {
        let process = Process { name: name.to_owned(), store, leases: Leases::new(), lanes: (0..lanes).map(|_| None).collect() };
        self.processes.push(process);
        let at = self.processes.len() - 1;
        self.restart(at);
        at
    }

    /// Starts every lane of a process anew, on the disk it has.
    pub(crate) fn restart(&mut self, at: usize) {
        self.kill(at);
        let (broker, settings, policy) = (self.broker.clone(), Arc::clone(&self.settings), Arc::clone(&self.policy));
        let process = &mut self.processes[at];
        process.leases = Leases::new();
        let pace = Pace::new();
        for lane in 0..process.lanes.len() {
            let (rereads, refuses, keeps_changelog) = (self.rereads, self.refuses.clone(), self.keeps_changelog);
            let log = TestLog { memory: broker.open(&process.name, lane as u32), rereads, refuses, keeps_changelog };
            let restorer = InlineRestorer::new(process.store.clone(), log.changelog().unwrap(), Arc::clone(&settings));
            let engine = SessionEngine::new(APP, Arc::clone(&policy));
            let leases = process.leases.clone();
            let lane_of = Lane::new(log, process.store.clone(), engine, Box::new(restorer), leases, Arc::clone(&settings));
            process.lanes[lane] = Some(lane_of.with_pace(&pace).with_observer(Box::new(Explosive)));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, at: usize) {
        for lane in &mut self.processes[at].lanes {
            *lane = None;
        }
    }

    /// One turn of one lane. A lane that died takes its process with it.
    pub(crate) fn turn(&mut self, at: usize, lane: usize) {
        let clock = BrokerClock(self.broker.clone());
        let Some(found) = self.processes[at].lanes[lane].as_mut() else { return };
        let turn = found.turn(&clock);
        let is_dead = found.log().memory.is_dead();
        if turn != Turn::Idle {
            self.trace.push(format!("{} {}/{lane} {turn:?}", self.broker.now_ms(), self.processes[at].name));
        }
        if turn == Turn::Ended(Exit::Stopped) {
            self.processes[at].lanes[lane] = None;
            return;
        }
        let exit = match turn {
            Turn::Ended(exit) => Some(exit),
            _ => None,
        };
        if exit.is_none() && !is_dead {
            return;
        }
        if let Some(exit) = exit.filter(|_| !is_dead) {
            self.exits.push(exit);
        }
        if self.restarts {
            self.trace.push(format!("{} restart", self.processes[at].name));
            self.restart(at);
        } else {
            self.processes[at].lanes[lane] = None;
        }
    }

    /// Tells a lane to stop, and lets it.
    pub(crate) fn stop(&mut self, at: usize, lane: usize, leave: bool) {
        let Some(found) = self.processes[at].lanes[lane].take() else { return };
        let (sender, orders) = std::sync::mpsc::sync_channel(1);
        sender.send(Order::Stop { leave }).unwrap();
        self.processes[at].lanes[lane] = Some(found.with_orders(orders));
        // An interrupted batch comes first.
        for _ in 0..10 {
            self.turn(at, lane);
        }
    }

    /// Has every lane write the sessions it holds: it gets the same policy with another history.
    pub(crate) fn write_back(&mut self) {
        let mut policy = Policy::clone(&self.policy);
        policy.history_steps += 1;
        let policy = Arc::new(policy);
        for at in 0..self.processes.len() {
            for lane in 0..self.processes[at].lanes.len() {
                let Some(found) = self.processes[at].lanes[lane].take() else { continue };
                let (sender, orders) = std::sync::mpsc::sync_channel(1);
                sender.send(Order::Policy(Arc::clone(&policy))).unwrap();
                self.processes[at].lanes[lane] = Some(found.with_orders(orders));
                self.turn(at, lane);
                assert_eq!(self.processes[at].lanes[lane].as_ref().unwrap().sessions_cached(), 0);
            }
        }
    }

    /// Turns every lane until nothing is left to do; false when virtual time ran out.
    pub(crate) fn settle(&mut self) -> bool {
        self.settle_with(&mut |_| ())
    }

    /// The same, with something of the test's own after each round.
    pub(crate) fn settle_with(&mut self, between: &mut dyn FnMut(&mut Self)) -> bool {
        let deadline = self.broker.now_ms() + PATIENCE_MS;
        while self.broker.now_ms() < deadline {
            let before = self.trace.len();
            for at in 0..self.processes.len() {
                for lane in 0..self.processes[at].lanes.len() {
                    self.turn(at, lane);
                }
            }
            between(self);
            if self.trace.len() == before {
                if self.is_settled() {
                    return true;
                }
                self.broker.advance(20);
            }
        }
        self.is_settled()
    }

    /// Offset after the last record of a task's input. Markers of transactions, which end only `swarm-counts`, are no records.
    fn input_end(&self, task: TaskId) -> u64 {
        match task.stage {
            Stage::Session => self.broker.input_range(task).end,
            Stage::Swarm => {
                let records = self.broker.committed(MemoryTopic::Input(Stage::Swarm)).into_iter();
                records.filter(|record| record.partition == task.partition).map(|record| record.offset + 1).max().unwrap_or(0)
            }
        }
    }

    /// O4: the group stands at the end of the input, and no transaction is open.
    pub(crate) fn is_settled(&self) -> bool {
        self.broker.is_settled()
            && self.tasks.iter().copied().all(|task| {
                self.broker.group_offset(task) == Some(NextOffset(self.input_end(task)))
                    && self
                        .processes
                        .iter()
                        .flat_map(|process| process.lanes.iter().flatten())
                        .any(|lane| lane.tasks().iter().any(|view| view.id == task && view.position.is_some()))
            })
    }

    /// The store of the process that owns the task now.
    pub(crate) fn store_of(&self, task: TaskId) -> &TestStore {
        let owner = self.broker.owner_of(task).unwrap();
        let process = self.processes.iter().find(|process| owner.starts_with(&format!("{}-", process.name)));
        &process.unwrap().store
    }

    /// A store as a full restore of the task's changelog makes it.
    pub(crate) fn restored(&self, task: TaskId) -> MemoryStore {
        let mut lanes = self.processes.iter().flat_map(|process| process.lanes.iter().flatten());
        let mut reader = lanes.next().unwrap().log().changelog().unwrap().unwrap();
        let mut changes = Vec::new();
        let mut take = |_, key: &[u8], value: Option<&[u8]>| {
            changes.push(Change { task, key: StateKey::from_changelog(key).unwrap(), value: value.map(<[u8]>::to_vec) });
            Flow::Continue
        };
        reader.read(task, self.broker.changelog_range(task).start, &mut take).unwrap();
        let mut store = MemoryStore::new();
        store.commit(changes).unwrap();
        store
    }

    /// O1's measure: outputs by task in order, last row per subject, state hash per task.
    pub(crate) fn outcome(&self) -> Outcome {
        let states = (0..PARTITIONS).map(session_task);
        let states = states.map(|task| state_hash(self.store_of(task), task, &FAMILIES).unwrap()).collect();
        Outcome { outputs: outputs_by_task(&self.broker), rows: rows(&self.broker), states, counts: counts(&self.broker) }
    }

    /// O2, O3 and O5, against what the store says.
    pub(crate) fn audit(&self) {
        let outputs = outputs_by_task(&self.broker);
        let mut ids = BTreeSet::new();
        for task in self.tasks.iter().copied() {
            let of_task = outputs.get(&task.to_string()).cloned().unwrap_or_default();
            let mut hash = 0;
            for (index, output) in of_task.iter().enumerate() {
                assert_eq!(output.ordinal, index as u64 + 1, "{task}: an output is missing, doubled or out of order");
                assert!(ids.insert(output.id.clone()), "{task}: id {} twice", output.id);
                hash = chain(hash, output.id.as_bytes());
            }
            let store = self.store_of(task);
            let position = store.get(task, &StateKey::position()).unwrap().map(|bytes| Position::decode(&bytes).unwrap());
            let position = position.unwrap_or_default();
            assert_eq!((position.outputs, position.outputs_chain), (of_task.len() as u64, hash), "{task}");
            assert_eq!(position.next_offset.0, self.input_end(task), "{task}");
            // O3: the store is what a full restore of the changelog gives.
            let restored = self.restored(task);
            let (left, right) = (state_hash(store, task, &KeyFamily::ALL), state_hash(&restored, task, &KeyFamily::ALL));
            assert_eq!(left.unwrap(), right.unwrap(), "{task}: the store is not its changelog");
        }
        // O5: who reads everything and drops what it has seen ends with the same set.
        let all: BTreeSet<String> =
            self.broker.uncommitted(MemoryTopic::Commands).iter().map(|record| header(record, "ce_id").unwrap()).collect();
        let committed: BTreeSet<String> =
            self.broker.committed(MemoryTopic::Commands).iter().map(|record| header(record, "ce_id").unwrap()).collect();
        assert_eq!(all, committed);
    }
}

/// One output as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) ordinal: u64,
    pub(crate) id: String,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) timestamp_ms: i64,
}

/// What two runs over one input must have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) outputs: BTreeMap<String, Vec<Seen>>,
    pub(crate) rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub(crate) states: Vec<u64>,
    /// Calls by key and pane that the swarm stage sees of a swarm that is never reset.
    pub(crate) counts: BTreeMap<(Vec<u8>, i64), u64>,
}

impl Outcome {
    /// What makes two outcomes differ, in a few words.
    #[track_caller]
    pub(crate) fn assert_is(&self, expected: &Self, what: &str) {
        for (task, outputs) in &expected.outputs {
            let ours = self.outputs.get(task).map_or(&[][..], Vec::as_slice);
            let at = outputs.iter().zip(ours).position(|(left, right)| left != right);
            if let Some(at) = at {
                panic!("{what}: output {at} of {task}\nexpected {}\ngot      {}", show(&outputs[at]), show(&ours[at]));
            }
            if ours.len() != outputs.len() {
                let more = ours.iter().chain(outputs).skip(ours.len().min(outputs.len())).map(show).next().unwrap_or_default();
                panic!("{what}: {} outputs of {task}, expected {}: {more}", ours.len(), outputs.len());
            }
        }
        assert_eq!(self.outputs.len(), expected.outputs.len(), "{what}: tasks");
        for (key, row) in &expected.rows {
            let ours = self.rows.get(key).map(|row| row.as_deref().map(String::from_utf8_lossy));
            let row = Some(row.as_deref().map(String::from_utf8_lossy));
            assert_eq!(ours, row, "{what}: row {}", String::from_utf8_lossy(key));
        }
        assert_eq!(self.rows.len(), expected.rows.len(), "{what}: rows");
        assert_eq!(self.counts, expected.counts, "{what}: counts");
        assert_eq!(self.states, expected.states, "{what}: states");
    }
}

fn show(seen: &Seen) -> String {
    let value = seen.value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let headers: Vec<String> = seen
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_deref().unwrap_or_default())))
        .collect();
    format!("{} {} {value} {}", seen.ordinal, seen.timestamp_ms, headers.join(" "))
}

pub(crate) fn header(record: &MemoryRecord, name: &str) -> Option<String> {
    let (_, value) = record.headers.iter().rev().find(|(found, _)| found == name)?;
    Some(String::from_utf8(value.clone()?).unwrap())
}

/// Commands and dead letters of each task, in the order of their ordinals.
pub(crate) fn outputs_by_task(broker: &MemoryBroker) -> BTreeMap<String, Vec<Seen>> {
    let mut by_task: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for topic in [MemoryTopic::Commands, MemoryTopic::DeadLetters] {
        for record in broker.committed(topic) {
            let id = header(&record, "ce_id").unwrap_or_else(|| {
                let part = |name| header(&record, name).unwrap();
                format!("{}/{}/{}", part("dlq.topic"), part("dlq.partition"), part("dlq.offset"))
            });
            by_task.entry(header(&record, "lw_task").unwrap()).or_default().push(Seen {
                ordinal: header(&record, "lw_ordinal").unwrap().parse().unwrap(),
                id,
                key: record.key.unwrap(),
                value: record.value,
                headers: record.headers,
                timestamp_ms: record.timestamp_ms,
            });
        }
    }
    for seen in by_task.values_mut() {
        seen.sort_by_key(|seen| seen.ordinal);
    }
    by_task
}

/// The last row of each subject.
fn rows(broker: &MemoryBroker) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let rows = broker.committed(MemoryTopic::State);
    let mut last: BTreeMap<_, _> = rows.into_iter().map(|row| (row.key.unwrap(), row.value)).collect();
    // Whether a row was written before its tombstone depends on the cut.
    last.retain(|_, value| value.is_some());
    last
}

/// Sums of the swarm that is never reset: of the other one a lane drops before its commit what a floor would drop after it, so there
/// only the decisions are the same.
fn counts(broker: &MemoryBroker) -> BTreeMap<(Vec<u8>, i64), u64> {
    use loopwarden::store::report::SwarmRecord;
    let mut counts = BTreeMap::new();
    for record in broker.committed(MemoryTopic::Input(Stage::Swarm)) {
        if let SwarmRecord::Report(report) = SwarmRecord::decode(&record.value.unwrap()).unwrap() {
            for entry in report.entries {
                let key = record.key.clone().unwrap();
                if !key.starts_with(b"\x1fw1\x1f") {
                    *counts.entry((key, entry.pane.0)).or_insert(0) += u64::from(entry.calls);
                }
            }
        }
    }
    counts
}

/// Small numbers from a seed.
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// An event's record: session (the key), bytes, timestamp.
pub(crate) type Fed = (String, Option<Vec<u8>>, i64);

/// A fleet that loops, answers, ends, resets, sends rubbish and explodes.
pub(crate) fn fleet(seed: u64, count: usize) -> Vec<Fed> {
    let dice = Dice::new(seed);
    let mut now_ms = 1_795_291_200_000_i64;
    let mut records = Vec::new();
    for number in 0..count {
        now_ms += if dice.below(60) == 0 { 25_000 } else { dice.below(400) as i64 };
        // One session in two events: hot ones exist.
        let session = if dice.below(3) == 0 { "hot".to_owned() } else { format!("s{}", dice.below(12)) };
        let agent = ["main", "main", "sub"][dice.below(3) as usize];
        let late_ms = if dice.below(20) == 0 { dice.below(3_000) as i64 } else { 0 };
        let common = format!(
            r#""id":"e{number}","session_id":"{session}","agent":{{"id":"{agent}"}},"swarm_id":"w{}","time":{}"#,
            dice.below(2),
            now_ms - late_ms
        );
        let tool = ["Bash", "read_file", "search"][dice.below(3) as usize];
        let arg = dice.below(2);
        let call = dice.below(6);
        // One session does nothing but loop, so that blocks are placed, expire and are renewed.
        let (tool, arg, what) = if session == "s0" { ("Bash", 0, 0) } else { (tool, arg, dice.below(100)) };
        let json = match what {
            0..55 => format!(
                r#"{{{common},"kind":"tool","tool":"{tool}","args":{{"command":"c{arg}"}},"outcome":"error","error":"boom {arg}"}}"#
            ),
            55..65 => {
                format!(r#"{{{common},"kind":"tool_call","tool":"{tool}","call_id":"c{call}","args":{{"command":"c{arg}"}}}}"#)
            }
            65..75 => format!(r#"{{{common},"kind":"tool_result","tool":"{tool}","call_id":"c{call}","result":"r{arg}"}}"#),
            75..82 => format!(r#"{{{common},"kind":"message","role":"assistant","text":"t{number}"}}"#),
            82..85 => format!(r#"{{{common},"kind":"message","role":"user","text":"u{number}"}}"#),
            85..88 => format!(r#"{{{common},"kind":"session_end"}}"#),
            88..91 => format!(r#"{{{common},"kind":"reset","scope":"session"}}"#),
            91..93 => format!(r#"{{{common},"kind":"reset","scope":"swarm"}}"#).replace(r#""w0""#, r#""w1""#),
            93..95 => format!(r#"{{{common},"kind":"progress"}}"#),
            95 => format!(r#"{{{common},"kind":"tool","tool":"boom","args":{{}},"result":"x"}}"#),
            96 => format!(r#"{{{common},"kind":"nonsense"}}"#),
            97 => "not json".to_owned(),
            _ => format!(r#"{{{common},"kind":"tool","tool":"{tool}","args":{{"command":"n{number}"}},"result":"n{number}"}}"#),
        };
        let value = if dice.below(150) == 0 { None } else { Some(json.into_bytes()) };
        records.push((session, value, now_ms));
    }
    records
}

pub(crate) fn feed(broker: &MemoryBroker, records: &[Fed]) {
    for (session, value, timestamp_ms) in records {
        let partition = loopwarden::event::partition_of(session.as_bytes(), PARTITIONS);
        broker.append(session_task(partition), Some(session.as_bytes()), value.as_deref(), *timestamp_ms);
    }
}

/// O1: one lane, a commit after each record, no fault.
pub(crate) fn reference(records: &[Fed]) -> Outcome {
    reference_under(policy(), records)
}

/// The same under another policy.
pub(crate) fn reference_under(policy: Arc<Policy>, records: &[Fed]) -> Outcome {
    let mut world = TestWorld::new(config(1), settings(CommitTrigger::EveryRecords(1)));
    world.policy = policy;
    feed(&world.broker, records);
    world.start("ref", 1);
    assert!(world.settle(), "{:?}", world.exits);
    assert_eq!(world.exits, []);
    world.audit();
    world.outcome()
}
