//! The auditor (oracle O2): a `read_committed` reader of everything the processes write, from the first record on, while they are
//! killed. It knows nothing of how they work; it counts ordinals, chains ids, and compares with every Position it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::{thread, thread::JoinHandle, time::Duration};

use loopwarden::event::{Stage, TaskId};
use loopwarden::store::{Change, KeyFamily, MemoryStore, Position, StateKey, StateStore, chain};
use loopwarden::{clock::Stopwatch, log::kafka::KafkaOptions, server::SWARM, store::report::SOURCES_HEADER};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use crate::outcome::{Read, Seen, Spill, read_output};

/// Faults kept; more say nothing new.
const FAULTS_MAX: usize = 100;
/// A client may stop reading a partition for good when a broker comes back (`src/kafka/client/standstill.rs`): another one takes its place.
const READER_AGE_MAX: Duration = Duration::from_secs(30);
/// A commit seen so soon after a start is the former life's.
const TOO_SOON_MS: u64 = 150;

/// Outputs of one task.
#[derive(Debug)]
pub(crate) struct OfTask {
    /// Ordinals 1 to n without a gap.
    pub(crate) outputs: Vec<Seen>,
    /// Chain after each of them; first of none.
    chains: Vec<u64>,
    /// Those behind a gap: another partition's part has not been read yet.
    ahead: BTreeMap<u64, Seen>,
    /// Last ordinal read of each topic partition.
    last: BTreeMap<(Kind, i32), u64>,
    /// Positions that speak of outputs not read yet: outputs, chain.
    unproven: BTreeMap<u64, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Commands,
    DeadLetters,
    Rows,
    Changelog(Stage),
    Sums,
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    pub(crate) tasks: BTreeMap<String, OfTask>,
    ids: BTreeSet<String>,
    /// The last row of each subject.
    pub(crate) rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// A full restore of each changelog, as far as it was read.
    state: BTreeMap<TaskId, BTreeMap<StateKey, Vec<u8>>>,
    pub(crate) positions: BTreeMap<TaskId, Position>,
    /// Positions seen: transactions times their tasks.
    pub(crate) commits: u64,
    /// Offset after the last sum in each partition.
    pub(crate) sums: BTreeMap<TaskId, u64>,
    /// Offset after the last record or marker that was read, of each topic partition: as of the last moment when nothing came.
    pub(crate) read: BTreeMap<(String, i32), i64>,
    /// Kind and words.
    pub(crate) faults: Vec<(&'static str, String)>,
    /// Instances that were started and have not committed since: when.
    births: BTreeMap<String, Stopwatch>,
    /// Milliseconds from a start to its first commit, by the reader's clock.
    pub(crate) first_commits: Vec<u64>,
    /// The bytes of the outputs.
    pub(crate) spill: Option<Spill>,
}

impl Default for OfTask {
    fn default() -> Self {
        Self { outputs: Vec::new(), chains: vec![0], ahead: BTreeMap::new(), last: BTreeMap::new(), unproven: BTreeMap::new() }
    }
}

impl Audit {
    fn fault(&mut self, kind: &'static str, words: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push((kind, words));
        }
    }

    /// Commands and dead letters that were seen, behind gaps too.
    pub(crate) fn outputs(&self) -> usize {
        self.tasks.values().map(|task| task.outputs.len() + task.ahead.len()).sum()
    }

    /// Notes that an instance starts: its first commit is waited for.
    pub(crate) fn born(&mut self, instance: &str) {
        self.births.insert(instance.to_owned(), Stopwatch::start());
    }

    /// It was killed before it could commit.
    pub(crate) fn died(&mut self, instance: &str) {
        self.births.remove(instance);
    }

    /// Notes how far the reader has come; what it was handed over is noted already.
    fn came_to(&mut self, positions: &TopicPartitionList) {
        for element in positions.elements() {
            if let Offset::Offset(next) = element.offset() {
                self.read.insert((element.topic().to_owned(), element.partition()), next);
            }
        }
    }

    /// What only the end can tell: gaps, Positions without their outputs.
    pub(crate) fn close(&mut self) {
        let mut found = Vec::new();
        for (name, task) in &self.tasks {
            if let Some(ahead) = task.ahead.keys().next() {
                found.push(("lost", format!("{name}: nothing between {} and {ahead}", task.outputs.len())));
            }
            if let Some(outputs) = task.unproven.keys().next_back() {
                found.push(("torn", format!("{name}: a Position speaks of {outputs} outputs, {} are there", task.outputs.len())));
            }
        }
        for (id, position) in &self.positions {
            let seen = self.tasks.get(&id.to_string()).map_or(0, |task| task.outputs.len() as u64);
            if seen != position.outputs {
                found.push(("torn", format!("{id}: {seen} outputs are there, the last Position says {}", position.outputs)));
            }
        }
        found.into_iter().for_each(|(kind, words)| self.fault(kind, words));
    }

    /// A task's state as a full restore of its changelog gives it.
    pub(crate) fn restored(&self, task: TaskId) -> MemoryStore {
        let mut store = MemoryStore::new();
        let of_task = self.state.get(&task).into_iter().flatten();
        let changes: Vec<Change> =
            of_task.map(|(key, value)| Change { task, key: key.clone(), value: Some(value.clone()) }).collect();
        store.commit(changes).expect("memory");
        store
    }

    fn output(&mut self, kind: Kind, partition: i32, read: Read) {
        let Read { task, ordinal, id, bytes } = read;
        let seen = self.spill.as_mut().expect("a spill").keep(id, bytes);
        if !self.ids.insert(seen.id.clone()) {
            self.fault("doubled", format!("{task}: id {} again, as {ordinal}", seen.id));
        }
        let of_task = self.tasks.entry(task.clone()).or_default();
        let before = of_task.last.insert((kind, partition), ordinal).unwrap_or(0);
        let is_known = ordinal <= of_task.outputs.len() as u64 || of_task.ahead.contains_key(&ordinal);
        let mut wrong = Vec::new();
        if is_known {
            wrong.push(("doubled", format!("{task}: ordinal {ordinal} again")));
        } else if ordinal < before {
            wrong.push(("reordered", format!("{task}: ordinal {ordinal} after {before}")));
        }
        if !is_known {
            of_task.ahead.insert(ordinal, seen);
        }
        while let Some(seen) = of_task.ahead.remove(&(of_task.outputs.len() as u64 + 1)) {
            let next = chain(of_task.chains[of_task.outputs.len()], seen.id.as_bytes());
            of_task.outputs.push(seen);
            of_task.chains.push(next);
            if let Some(said) = of_task.unproven.remove(&(of_task.outputs.len() as u64))
                && said != next
            {
                wrong.push((
                    "torn",
                    format!("{task}: the chain of {} outputs is not that of their Position", of_task.outputs.len()),
                ));
            }
        }
        wrong.into_iter().for_each(|(kind, words)| self.fault(kind, words));
    }

    fn change(&mut self, task: TaskId, key: &[u8], value: Option<&[u8]>) {
        let Some(key) = StateKey::from_changelog(key) else { return self.fault("state", format!("{task}: unknown key {key:?}")) };
        if key.family == KeyFamily::Position
            && let Some(value) = value
        {
            match Position::decode(value) {
                Ok(position) => self.position(task, position),
                Err(error) => self.fault("state", format!("{task}: {error}")),
            }
        }
        let state = self.state.entry(task).or_default();
        match value {
            Some(value) => state.insert(key, value.to_vec()),
            None => state.remove(&key),
        };
    }

    fn position(&mut self, id: TaskId, position: Position) {
        self.commits += 1;
        let instance = position.owner.rsplit_once('-').map_or("", |(rest, _)| rest);
        let of = self
            .births
            .iter()
            .find(|(name, since)| instance.ends_with(name.as_str()) && since.elapsed().as_millis() as u64 >= TOO_SOON_MS);
        if let Some((name, since)) = of.map(|(name, since)| (name.clone(), *since)) {
            self.first_commits.push(since.elapsed().as_millis() as u64);
            self.births.remove(&name);
        }
        let name = id.to_string();
        let of_task = self.tasks.entry(name.clone()).or_default();
        let mut wrong = Vec::new();
        match of_task.chains.get(position.outputs as usize) {
            Some(chain) if *chain != position.outputs_chain => {
                wrong
                    .push(("torn", format!("{name}: the chain of {} outputs is not what their Position says", position.outputs)));
            }
            Some(_) => {}
            None => drop(of_task.unproven.insert(position.outputs, position.outputs_chain)),
        }
        if let Some(before) = self.positions.get(&id)
            && (before.next_offset > position.next_offset || before.outputs > position.outputs)
        {
            wrong.push((
                "reordered",
                format!(
                    "{name}: Position went from {} ({}) back to {} ({})",
                    before.next_offset, before.owner, position.next_offset, position.owner
                ),
            ));
        }
        self.positions.insert(id, position);
        wrong.into_iter().for_each(|(kind, words)| self.fault(kind, words));
    }

    fn record(&mut self, kind: Kind, message: &BorrowedMessage<'_>) {
        let (key, value) = (message.key().unwrap_or_default(), message.payload());
        match kind {
            Kind::Commands | Kind::DeadLetters => {
                let headers = message.headers().map_or_else(loopwarden::log::Headers::default, |headers| {
                    headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default())).collect()
                });
                match read_output(key, value, &headers, message.timestamp().to_millis().unwrap_or(-1)) {
                    Some(read) => self.output(kind, message.partition(), read),
                    None => {
                        self.fault("torn", format!("an output without its place at {}/{}", message.topic(), message.offset()))
                    }
                }
            }
            Kind::Rows => drop(self.rows.insert(key.to_vec(), value.map(<[u8]>::to_vec))),
            Kind::Changelog(stage) => self.change(TaskId { stage, partition: message.partition() as u32 }, key, value),
            // Source watermarks come as long as somebody runs, and nobody has to read the last of them.
            Kind::Sums if message.headers().is_some_and(|headers| headers.iter().any(|header| header.key == SOURCES_HEADER)) => {}
            Kind::Sums => {
                let task = TaskId { stage: Stage::Swarm, partition: message.partition() as u32 };
                self.sums.insert(task, message.offset() as u64 + 1);
            }
        }
    }
}

/// The running auditor.
pub(crate) struct Auditor {
    audit: Arc<Mutex<Audit>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A reader that goes on at these places.
fn open(config: &ClientConfig, places: &BTreeMap<(String, i32), Offset>) -> BaseConsumer {
    let reader: BaseConsumer = config.create().expect("a reader");
    let mut list = TopicPartitionList::new();
    for ((topic, partition), place) in places {
        list.add_partition_offset(topic, *partition, *place).expect("an offset");
    }
    reader.assign(&list).expect("assigned");
    reader
}

impl Auditor {
    /// Reads all topics of a group, each with so many partitions.
    pub(crate) fn start(options: &KafkaOptions, partitions: u32, spill: Spill) -> Self {
        let mut topics = vec![
            (options.topics.commands.clone(), Kind::Commands),
            (options.topics.dead_letters.clone(), Kind::DeadLetters),
            (options.topics.state.clone(), Kind::Rows),
            (options.changelog_topic(Stage::Session), Kind::Changelog(Stage::Session)),
        ];
        if SWARM {
            topics.push((options.changelog_topic(Stage::Swarm), Kind::Changelog(Stage::Swarm)));
            topics.push((options.input_topic(Stage::Swarm), Kind::Sums));
        }
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &options.bootstrap_servers)
            .set("group.id", format!("{}-auditor", options.app))
            .set("isolation.level", "read_committed")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "100")
            .set("queued.max.messages.kbytes", "16384");
        let mut places: BTreeMap<(String, i32), Offset> = BTreeMap::new();
        for (topic, _) in &topics {
            places.extend((0..partitions).map(|partition| ((topic.clone(), partition as i32), Offset::Beginning)));
        }
        let mut reader = open(&config, &places);
        let kinds: BTreeMap<String, Kind> = topics.into_iter().collect();
        let audit = Arc::new(Mutex::new(Audit { spill: Some(spill), ..Audit::default() }));
        let stop = Arc::<AtomicBool>::default();
        let (shared, stopped) = (Arc::clone(&audit), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut since = Stopwatch::start();
            while !stopped.load(Ordering::Acquire) {
                if since.elapsed() > READER_AGE_MAX {
                    reader = open(&config, &places);
                    since = Stopwatch::start();
                }
                match reader.poll(Duration::from_millis(50)) {
                    Some(Ok(message)) => {
                        let place = (message.topic().to_owned(), message.partition());
                        places.insert(place, Offset::Offset(message.offset() + 1));
                        shared.lock().expect("not poisoned").record(kinds[message.topic()], &message);
                    }
                    // Its positions pass over markers and aborted records, which it is never handed over.
                    None => {
                        let positions = reader.position().expect("positions");
                        for element in positions.elements() {
                            if let Offset::Offset(next) = element.offset() {
                                places.insert((element.topic().to_owned(), element.partition()), Offset::Offset(next));
                            }
                        }
                        shared.lock().expect("not poisoned").came_to(&positions);
                    }
                    // A broker that died comes again, and the client with it.
                    Some(Err(
                        KafkaError::PartitionEOF(_)
                        | KafkaError::MessageConsumption(
                            RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure,
                        ),
                    )) => {}
                    Some(Err(error)) => eprintln!("auditor: {error}"),
                }
            }
        });
        Self { audit, stop, thread }
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().expect("not poisoned")
    }

    /// What it sees, for another thread; that one must let go of it before the end.
    pub(crate) fn share(&self) -> Arc<Mutex<Audit>> {
        Arc::clone(&self.audit)
    }

    /// Ends it, and hands over what it saw.
    pub(crate) fn finish(self) -> Audit {
        self.stop.store(true, Ordering::Release);
        self.thread.join().expect("the auditor");
        let audit = Arc::try_unwrap(self.audit).expect("nobody else looks").into_inner().expect("not poisoned");
        let mut audit = audit;
        audit.close();
        audit
    }
}
