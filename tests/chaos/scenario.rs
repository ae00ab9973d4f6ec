//! A group of real processes on topics of its own, with a producer, the auditor, and what all of it must come to in the end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{collections::BTreeMap, process::ExitStatus, time::Duration};
use std::{fs, thread};

use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::event::{NextOffset, Stage, TaskId};
use loopwarden::store::{KeyFamily, Position, RocksOptions, RocksStore, StateKey, StateStore, state_hash};
use loopwarden::{exit_code, server::SWARM};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::auditor::{Audit, Auditor};
use crate::outcome::{Outcome, Spill};
use crate::process::{Process, remove, this_program};
use crate::reference::{FAMILIES, FAMILIES_OF_ANY_PROGRAM, Input, LATENESS_MS};
use crate::world::{PATIENCE, World};
use crate::{feeder::Feeder, fleet::Fleet, reference, topic::TopicEvents};

/// Without any progress for so long, nothing will come any more: longer than a session, a transaction and the broker's scans.
const STANDSTILL: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// Log lines that are shown of a process that ended by itself.
const LINES: usize = 5;
/// Log lines that tell of a store that was not trusted: none of them may come while disks are kept.
const WIPES: [&str; 3] =
    ["the changelog lost acknowledged records", "state is older than the changelog", "changelog and group disagree"];
/// The same where clocks are right. One that goes back by more than an hour finds state of a time to come, whose age nobody knows (rule R2).
const WIPE_BY_TIME: &str = "state was away for longer than deletions are kept";

/// A process that ended without being asked.
#[derive(Debug, Clone)]
pub(crate) struct Exit {
    pub(crate) name: String,
    pub(crate) status: ExitStatus,
    /// The end of its log: why.
    pub(crate) said: Vec<String>,
}

impl Exit {
    pub(crate) fn of(process: &Process, status: ExitStatus) -> Self {
        Self { name: process.name.clone(), status, said: process.said_last(LINES) }
    }
}

/// Everything at once.
pub(crate) struct Scenario {
    pub(crate) world: World,
    pub(crate) partitions: u32,
    pub(crate) root: PathBuf,
    pub(crate) feeder: Option<Feeder>,
    /// Where the partitions of the input end, once nothing is written any more. See [`Self::settle`].
    ends: BTreeMap<u32, u64>,
    pub(crate) processes: Vec<Process>,
    /// What processes that are added run.
    pub(crate) program: PathBuf,
    /// An earlier program is among them.
    pub(crate) is_mixed: bool,
    auditor: Option<Auditor>,
    /// Processes that ended by themselves.
    pub(crate) exits: Vec<Exit>,
}

/// What a scenario came to.
pub(crate) struct Verdict {
    /// Kind and words; none is the aim.
    pub(crate) problems: Vec<(&'static str, String)>,
    pub(crate) audit: Audit,
    pub(crate) expected: Outcome,
    pub(crate) reference_took: Duration,
}

impl Scenario {
    pub(crate) fn new(bootstrap: &str, name: &str, seed: u64, partitions: u32) -> Self {
        Self::on(World::new(bootstrap, partitions), name, Fleet::new(seed), partitions)
    }

    /// On topics that are there.
    pub(crate) fn on(world: World, name: &str, fleet: Fleet, partitions: u32) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("processes-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let auditor = Some(Auditor::start(&world.options, partitions, Spill::new(&root, "found")));
        let feeder = Some(Feeder::new(&world, partitions, fleet));
        let program = this_program();
        Self {
            world,
            partitions,
            root,
            feeder,
            ends: BTreeMap::new(),
            processes: Vec::new(),
            program,
            is_mixed: false,
            auditor,
            exits: Vec::new(),
        }
    }

    /// Adds an instance and starts it; its place.
    pub(crate) fn add(&mut self, lanes: u32, more: &[&str]) -> usize {
        let at = self.place(lanes, more);
        self.processes[at].start();
        at
    }

    /// Adds an instance that is to be started; its place.
    pub(crate) fn place(&mut self, lanes: u32, more: &[&str]) -> usize {
        let name = format!("lw-{}", self.processes.len());
        let mut process = Process::new(&self.root, &self.world.options, &name, lanes, more);
        process.program.clone_from(&self.program);
        self.processes.push(process);
        self.processes.len() - 1
    }

    pub(crate) fn start(&mut self, at: usize) {
        self.look().born(&self.processes[at].name);
        self.processes[at].start();
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.processes[at].kill();
        self.look().died(&self.processes[at].name);
    }

    /// Nobody's first commit is waited for any more.
    pub(crate) fn forget_births(&self) {
        for process in &self.processes {
            self.look().died(&process.name);
        }
    }

    pub(crate) fn produce(&mut self, count: u64) {
        let feeder = self.feeder.as_mut().expect("a feeder");
        feeder.produce(count);
        feeder.flush();
    }

    pub(crate) fn look(&self) -> std::sync::MutexGuard<'_, Audit> {
        self.auditor.as_ref().expect("an auditor").look()
    }

    /// What the auditor sees, for another thread.
    pub(crate) fn audit(&self) -> Arc<Mutex<Audit>> {
        self.auditor.as_ref().expect("an auditor").share()
    }

    fn tasks(&self) -> Vec<TaskId> {
        let of = |stage| (0..self.partitions).map(move |partition| TaskId { stage, partition });
        if SWARM { of(Stage::Session).chain(of(Stage::Swarm)).collect() } else { of(Stage::Session).collect() }
    }

    /// Notes processes that ended by themselves; their places.
    pub(crate) fn ended(&mut self) -> Vec<usize> {
        let mut found = Vec::new();
        for at in 0..self.processes.len() {
            if let Some(status) = self.processes[at].ended() {
                let process = &self.processes[at];
                // It would be started for ever, and nobody would be killed.
                let cannot_start = [exit_code::USAGE, exit_code::CONFIG].map(|code| Some(i32::from(code)));
                let log = process.log();
                assert!(!cannot_start.contains(&status.code()), "{} cannot start: see {}", process.name, log.display());
                self.exits.push(Exit::of(process, status));
                self.look().died(&self.processes[at].name);
                found.push(at);
            }
        }
        found
    }

    /// Waits for something, starting again what ends by itself.
    pub(crate) fn wait(&mut self, what: &str, patience: Duration, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Deadline::after(patience);
        while !done(self) {
            assert!(!deadline.is_over(), "{what}: not within {patience:?}; see {}", self.root.display());
            for at in self.ended() {
                self.start(at);
            }
            thread::park_timeout(LOOK);
        }
    }

    /// How many events were handed over to be written.
    pub(crate) fn produced(&self) -> u64 {
        self.feeder.as_ref().map_or(0, |feeder| feeder.produced)
    }

    /// How many of people were, beside those.
    pub(crate) fn acted(&self) -> u64 {
        self.feeder.as_ref().map_or(0, |feeder| feeder.acted)
    }

    /// How many events the input has, once that is settled.
    pub(crate) fn written(&self) -> u64 {
        self.ends.values().sum()
    }

    /// How many events are behind a Position.
    pub(crate) fn processed(&self) -> u64 {
        self.look().positions.iter().filter(|(task, _)| task.stage == Stage::Session).map(|(_, at)| at.next_offset.0).sum()
    }

    /// Every event and every sum is behind a Position, and nobody is still restoring.
    fn is_settled(&self) -> bool {
        if self.processes.iter().any(|process| process.is_running() && !process.is_ready()) {
            return false;
        }
        let audit = self.look();
        let session = |(partition, end): (&u32, &u64)| {
            let task = TaskId { stage: Stage::Session, partition: *partition };
            *end == 0 || audit.positions.get(&task).is_some_and(|position| position.next_offset.0 == *end)
        };
        let swarm =
            |(task, end): (&TaskId, &u64)| audit.positions.get(task).is_some_and(|position| position.next_offset.0 >= *end);
        self.ends.iter().all(session) && audit.sums.iter().all(swarm)
    }

    /// No sum is on its way to the auditor any more. Positions tell of an event before its sums are read: they are other topics.
    /// Once every event is behind a Position, no sum is added.
    fn has_all_sums(&self, all: &BaseConsumer) -> bool {
        let topic = self.world.options.input_topic(Stage::Swarm);
        (0..self.partitions as i32).filter(|_| SWARM).all(|partition| {
            let (start, end) = all.fetch_watermarks(&topic, partition, PATIENCE).expect("watermarks");
            start == end || self.look().read.get(&(topic.clone(), partition)).is_some_and(|next| *next >= end)
        })
    }

    /// Notes where the input ends: nothing is written any more. A broker that has come back may take a moment to show all of it.
    fn note_ends(&mut self, all: &BaseConsumer) {
        let topic = self.world.options.topics.input.clone();
        let end = |partition: u32| all.fetch_watermarks(&topic, partition as i32, PATIENCE).expect("watermarks").1 as u64;
        let deadline = Deadline::after(PATIENCE);
        loop {
            self.ends = (0..self.partitions).map(|partition| (partition, end(partition))).collect();
            let (written, produced) = (self.written(), self.produced() + self.acted());
            if written >= produced {
                return;
            }
            assert!(!deadline.is_over(), "{written} of {produced} delivered events are there: {:?}", self.ends);
            thread::park_timeout(LOOK);
        }
    }

    /// Waits until every event and every sum is behind a Position (part of O4), and whoever was started has its tasks.
    pub(crate) fn settle(&mut self) {
        let all = self.reader("read_uncommitted");
        self.note_ends(&all);
        let mut last = (u64::MAX, Stopwatch::start());
        loop {
            for at in self.ended() {
                self.start(at);
            }
            if self.is_settled() && self.has_all_sums(&all) && self.is_settled() {
                return;
            }
            let commits = self.look().commits;
            if commits != last.0 {
                last = (commits, Stopwatch::start());
            }
            if last.1.elapsed() > STANDSTILL {
                let missing: Vec<String> = (self.look().positions.iter())
                    .map(|(task, at)| {
                        format!("{task} {} of {:?} by {}", at.next_offset, self.ends.get(&task.partition), at.owner)
                    })
                    .collect();
                let processes: Vec<_> =
                    self.processes.iter().map(|process| (&process.name, process.is_ready(), process.said_last(LINES))).collect();
                panic!("no progress for {STANDSTILL:?}: {missing:?}; {processes:#?}; see {}", self.root.display());
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Ends everything, and compares all of it with the reference. Settle first.
    pub(crate) fn verify(mut self) -> Verdict {
        let mut problems = Vec::new();
        for process in &mut self.processes {
            if process.is_running() {
                let status = process.finish("TERM");
                if !status.success() {
                    problems.push(("exit", format!("{} ended with {status}", process.name)));
                }
            }
        }
        self.open_transactions(&mut problems);
        // What was committed while they stopped is on its way to the auditor.
        let tasks = self.tasks();
        let is_mixed = self.is_mixed;
        let compared = if is_mixed { FAMILIES_OF_ANY_PROGRAM } else { FAMILIES };
        let mut audit = self.read_to_the_end();
        problems.append(&mut audit.faults);
        let mut found = Outcome { spill: audit.spill.take(), ..Outcome::default() };
        for (name, task) in &mut audit.tasks {
            found.outputs.insert(name.clone(), std::mem::take(&mut task.outputs));
        }
        found.rows = audit.rows.iter().filter_map(|(key, row)| Some((key.clone(), row.clone()?))).collect();
        let mut stores = Vec::new();
        for task in &tasks {
            let store = audit.restored(*task);
            let all = state_hash(&store, *task, &KeyFamily::ALL).expect("a hash");
            if task.stage == Stage::Session && self.ends.get(&task.partition).is_some_and(|end| *end > 0) {
                found.states.insert(*task, state_hash(&store, *task, compared).expect("a hash"));
            }
            let Some(position) = audit.positions.get(task) else { continue };
            let group = self.world.committed(*task);
            if group != Some(position.next_offset) {
                problems
                    .push(("offset", format!("{task}: the group stands at {group:?}, its Position at {}", position.next_offset)));
            }
            stores.push((*task, position.next_offset, all));
        }
        self.compare_stores(&stores, &mut problems);
        let watch = Stopwatch::start();
        let policy = loopwarden::config::policy::load(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chaos/policy.toml"));
        let topics = [self.world.options.topics.input.clone(), self.world.options.input_topic(Stage::Swarm)];
        let input = Input {
            events: TopicEvents::of(&self.world, &self.ends),
            partitions: self.partitions,
            topics,
            app: self.world.options.app.clone(),
            policy: Arc::new(policy.expect("a policy")),
            lateness_ms: LATENESS_MS,
            names_triggers: false,
        };
        let mut expected = reference::run(input, compared, Spill::new(&self.root, "expected"), |id, bytes| (id, bytes));
        if is_mixed {
            expected.forget_programs();
            found.forget_programs();
        }
        expected.outputs.retain(|_, outputs| !outputs.is_empty());
        found.outputs.retain(|_, outputs| !outputs.is_empty());
        expected.states.retain(|task, _| self.ends.get(&task.partition).is_some_and(|end| *end > 0));
        problems.extend(found.differences(&mut expected).into_iter().map(|words| ("reference", words)));
        for process in &self.processes {
            let by_time = Some(WIPE_BY_TIME).filter(|_| process.environment.is_empty());
            for words in WIPES.into_iter().chain(by_time) {
                if process.told(words) > 0 {
                    problems.push(("wiped", format!("{}: {words}", process.name)));
                }
            }
        }
        if problems.is_empty() {
            remove(&self.root);
        }
        Verdict { problems, audit, expected, reference_took: watch.elapsed() }
    }

    /// O3: of every process that holds a task's state as of its end, the store is a restore of the changelog.
    fn compare_stores(&self, expected: &[(TaskId, NextOffset, u64)], problems: &mut Vec<(&'static str, String)>) {
        let mut holders: BTreeMap<TaskId, u32> = expected.iter().map(|(task, ..)| (*task, 0)).collect();
        for process in self.processes.iter().filter(|process| process.state_dir().is_dir()) {
            let owner = self.world.owner(&process.name);
            let store = RocksStore::open(&process.state_dir(), &RocksOptions::default(), &owner);
            let store = store.expect("the store of a process that ended");
            for (task, end, expected) in expected {
                let Some(bytes) = store.get(*task, &StateKey::position()).expect("a Position") else { continue };
                if Position::decode(&bytes).expect("a Position").next_offset != *end {
                    continue;
                }
                *holders.entry(*task).or_default() += 1;
                if state_hash(&store, *task, &KeyFamily::ALL).expect("a hash") != *expected {
                    problems.push(("state", format!("{task}: the store of {} is not its changelog", process.name)));
                }
            }
        }
        for (task, end, _) in expected.iter().filter(|(task, ..)| holders[task] == 0) {
            problems.push(("state", format!("{task}: no process holds its state as of {end}")));
        }
    }

    /// Every partition that the processes write to.
    fn written_to(&self) -> Vec<(String, i32)> {
        let options = &self.world.options;
        let mut topics = vec![
            options.topics.commands.clone(),
            options.topics.state.clone(),
            options.topics.dead_letters.clone(),
            options.changelog_topic(Stage::Session),
        ];
        if SWARM {
            topics.extend([options.changelog_topic(Stage::Swarm), options.input_topic(Stage::Swarm)]);
        }
        let of = |topic: String| (0..self.partitions as i32).map(move |partition| (topic.clone(), partition));
        topics.into_iter().flat_map(of).collect()
    }

    fn reader(&self, isolation: &str) -> BaseConsumer {
        let options = &self.world.options;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &options.bootstrap_servers).set("group.id", format!("{}-end", options.app));
        config.set("isolation.level", isolation).create().expect("a reader")
    }

    /// O4: nothing is open; the last stable offset is the end on every topic.
    fn open_transactions(&self, problems: &mut Vec<(&'static str, String)>) {
        let (committed, all) = (self.reader("read_committed"), self.reader("read_uncommitted"));
        for (topic, partition) in self.written_to() {
            let end = |reader: &BaseConsumer| reader.fetch_watermarks(&topic, partition, PATIENCE).expect("watermarks").1;
            let deadline = Deadline::after(PATIENCE);
            while end(&committed) != end(&all) {
                // A process that was killed as the last thing leaves one, until the broker's scan.
                if deadline.is_over() {
                    problems.push(("open", format!("a transaction is open on {topic}/{partition}")));
                    break;
                }
                thread::park_timeout(LOOK);
            }
        }
    }

    /// Lets the auditor read what was visible when this was called.
    fn read_to_the_end(&mut self) -> Audit {
        let committed = self.reader("read_committed");
        let range =
            |(topic, partition): &(String, i32)| committed.fetch_watermarks(topic, *partition, PATIENCE).expect("watermarks");
        let ends = self.written_to().into_iter().map(|at| (range(&at), at));
        // An empty partition has no place that could be read up to.
        let ends: Vec<((String, i32), i64)> =
            ends.filter(|((start, end), _)| start < end).map(|((_, end), at)| (at, end)).collect();
        let mut last = ((0, 0), Stopwatch::start());
        loop {
            let (seen, is_read) = {
                let audit = self.look();
                let is_read = ends.iter().all(|(at, end)| audit.read.get(at).is_some_and(|next| next >= end));
                ((audit.commits + audit.outputs() as u64, audit.read.values().sum::<i64>()), is_read)
            };
            if is_read && self.is_settled() {
                return self.auditor.take().expect("an auditor").finish();
            }
            if seen != last.0 {
                last = (seen, Stopwatch::start());
            }
            if last.1.elapsed() > STANDSTILL {
                let audit = self.look();
                let unread: Vec<_> = ends.iter().filter(|(at, end)| audit.read.get(at).is_none_or(|next| next < end)).collect();
                let positions: Vec<String> =
                    audit.positions.iter().map(|(task, at)| format!("{task} {}", at.next_offset)).collect();
                panic!("the auditor does not come to an end: unread {unread:?}, at {positions:?}, sums {:?}", audit.sums);
            }
            thread::park_timeout(LOOK);
        }
    }
}

impl Verdict {
    /// Panics where anything is wrong.
    #[track_caller]
    pub(crate) fn assert_exactly_once(&self) {
        let shown: Vec<String> = self.problems.iter().take(20).map(|(kind, words)| format!("{kind}: {words}")).collect();
        assert!(self.problems.is_empty(), "{} problems\n{}", self.problems.len(), shown.join("\n"));
        assert!(self.expected.outputs.values().map(Vec::len).sum::<usize>() > 0, "an input that says nothing proves nothing");
    }
}
