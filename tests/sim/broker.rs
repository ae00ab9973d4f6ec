//! The broker: topics, time, and what a test may ask of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::event::{NextOffset, Stage, TaskId, partition_of};
use loopwarden_core::limits;
use loopwarden_log::{ChangelogRange, Destination, InputNames, Output, Partitions};

use crate::transaction::{Markers, Producer};
use crate::{Faults, MemoryLog, MemoryRecord};
use crate::{group::Group, partition::Partition};

/// Topics of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryTopic {
    /// What a stage reads.
    Input(Stage),
    /// Copy of a stage's state.
    Changelog(Stage),
    /// Events that an intake makes.
    Events,
    /// Commands.
    Commands,
    /// Verdicts in force.
    State,
    /// What could not be an event.
    DeadLetters,
}

/// How the broker behaves. Times in ms of the virtual clock.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// Application: the first part of transactional ids.
    pub app: String,
    /// Partitions of the inputs; changelogs have as many, commands and state as many as the events.
    pub partitions: Partitions,
    /// Partitions of the dead letters.
    pub dead_letter_partitions: u32,
    /// Topic names that records carry.
    pub names: InputNames,
    /// A member silent for longer is put out of the group.
    pub session_timeout_ms: i64,
    /// A transaction open for longer is aborted, its producer fenced.
    pub transaction_timeout_ms: i64,
    /// Records that one poll hands over at most.
    pub poll_records_max: usize,
    /// Largest value that is decoded. Bytes.
    pub value_bytes_max: usize,
    /// Whether a first start begins at the end of its input, not at its beginning.
    pub start_at_end: bool,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            app: "loopwarden".to_owned(),
            partitions: Partitions { session: 4, swarm: 4 },
            dead_letter_partitions: 2,
            names: InputNames::default(),
            session_timeout_ms: 10_000,
            transaction_timeout_ms: 10_000,
            poll_records_max: 500,
            value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            start_at_end: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) config: MemoryConfig,
    pub(super) topics: BTreeMap<(MemoryTopic, u32), Partition>,
    pub(super) producers: BTreeMap<String, Producer>,
    pub(super) transactions: u64,
    pub(super) offsets: BTreeMap<TaskId, NextOffset>,
    pub(super) group: Group,
    pub(super) faults: Faults,
    pub(super) now_ms: i64,
    /// Until when nothing of a task's input comes, whoever reads it.
    pub(super) lags: BTreeMap<TaskId, i64>,
}

impl State {
    pub(super) fn partition(&mut self, place: (MemoryTopic, u32)) -> &mut Partition {
        self.topics.entry(place).or_default()
    }

    pub(super) fn tasks(&self) -> Vec<TaskId> {
        let of = |stage| (0..self.config.partitions.of(stage)).map(move |partition| TaskId { stage, partition });
        of(Stage::Session).chain(of(Stage::Swarm)).collect()
    }

    /// Topic and partition of an output.
    pub(super) fn place(&self, output: &Output) -> (MemoryTopic, u32) {
        let by_key = |count| partition_of(&output.key, count);
        let partitions = self.config.partitions;
        match output.destination {
            Destination::Events => (MemoryTopic::Events, by_key(partitions.session)),
            Destination::Commands => (MemoryTopic::Commands, by_key(partitions.session)),
            Destination::State => (MemoryTopic::State, by_key(partitions.session)),
            Destination::DeadLetters { source_partition } => {
                (MemoryTopic::DeadLetters, source_partition % self.config.dead_letter_partitions.max(1))
            }
            Destination::SwarmCounts => (MemoryTopic::Input(Stage::Swarm), by_key(partitions.swarm)),
            Destination::SwarmPartition { partition } => (MemoryTopic::Input(Stage::Swarm), partition),
            Destination::Changelog(task) => (MemoryTopic::Changelog(task.stage), task.partition),
        }
    }

    pub(super) fn range(&self, place: (MemoryTopic, u32)) -> ChangelogRange {
        self.topics.get(&place).map_or(ChangelogRange { start: 0, end: 0 }, |partition| ChangelogRange {
            start: partition.start(),
            end: partition.stable(),
        })
    }
}

/// A handle on the broker; clones share it.
#[derive(Debug, Clone)]
pub struct MemoryBroker {
    state: Arc<Mutex<State>>,
}

impl MemoryBroker {
    /// A broker with empty topics, at time 0.
    #[must_use]
    pub fn new(config: MemoryConfig, faults: Faults) -> Self {
        let state = State {
            config,
            topics: BTreeMap::new(),
            producers: BTreeMap::new(),
            transactions: 0,
            offsets: BTreeMap::new(),
            group: Group::default(),
            faults,
            now_ms: 0,
            lags: BTreeMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the log of a lane: first its producer, then the group (rule B6). Opening the same lane again is what a restart does:
    /// the former handle is fenced.
    #[must_use]
    pub fn open(&self, instance: &str, lane: u32) -> MemoryLog {
        MemoryLog::open(self.clone(), instance, lane)
    }

    /// Appends a record to a task's input, outside any transaction. Returns its offset.
    pub fn append(&self, task: TaskId, key: Option<&[u8]>, value: Option<&[u8]>, timestamp_ms: i64) -> u64 {
        self.append_record(
            task,
            MemoryRecord {
                key: key.map(<[u8]>::to_vec),
                value: value.map(<[u8]>::to_vec),
                timestamp_ms,
                ..MemoryRecord::default()
            },
        )
    }

    /// Appends a record with headers to a task's input, outside any transaction. Partition and offset are set here.
    #[expect(clippy::must_use_candidate, reason = "the effect is the point")]
    pub fn append_record(&self, task: TaskId, record: MemoryRecord) -> u64 {
        let record = MemoryRecord { partition: task.partition, ..record };
        self.lock().partition((MemoryTopic::Input(task.stage), task.partition)).append(None, record)
    }

    /// What a `read_committed` reader sees of a topic, partition by partition.
    #[must_use]
    pub fn committed(&self, topic: MemoryTopic) -> Vec<MemoryRecord> {
        let state = self.lock();
        let partitions = state.topics.iter().filter(|((of, _), _)| *of == topic);
        partitions.flat_map(|(_, partition)| partition.committed(0)).cloned().collect()
    }

    /// What a `read_uncommitted` reader sees of a topic: aborted and undecided records too.
    #[must_use]
    pub fn uncommitted(&self, topic: MemoryTopic) -> Vec<MemoryRecord> {
        let state = self.lock();
        let partitions = state.topics.iter().filter(|((of, _), _)| *of == topic);
        partitions.flat_map(|(_, partition)| partition.all(0).map(|(record, _)| record)).cloned().collect()
    }

    /// Whether everything has come to rest: no transaction open or unfinished, LSO = high watermark everywhere.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let state = self.lock();
        !state.any_transaction() && state.topics.values().all(|partition| partition.stable() == partition.high_watermark())
    }

    /// The group's offset of a task; pending ones are not it.
    #[must_use]
    pub fn group_offset(&self, task: TaskId) -> Option<NextOffset> {
        self.lock().offsets.get(&task).copied()
    }

    /// Sets or deletes the group's offset of a task behind everybody's back.
    pub fn set_group_offset(&self, task: TaskId, offset: Option<NextOffset>) {
        let mut state = self.lock();
        match offset {
            Some(offset) => state.offsets.insert(task, offset),
            None => state.offsets.remove(&task),
        };
    }

    /// First and stable end offset of a task's input.
    #[must_use]
    pub fn input_range(&self, task: TaskId) -> ChangelogRange {
        self.lock().range((MemoryTopic::Input(task.stage), task.partition))
    }

    /// First and stable end offset of a task's changelog.
    #[must_use]
    pub fn changelog_range(&self, task: TaskId) -> ChangelogRange {
        self.lock().range((MemoryTopic::Changelog(task.stage), task.partition))
    }

    /// Compacts a task's changelog; with `tombstones`, deletions older than the newest record of all go too.
    pub fn compact(&self, task: TaskId, tombstones: bool) {
        self.lock().partition((MemoryTopic::Changelog(task.stage), task.partition)).compact(tombstones);
    }

    /// Deletes a task's changelog, as if the topic had been made anew.
    pub fn delete_changelog(&self, task: TaskId) {
        self.lock().topics.remove(&(MemoryTopic::Changelog(task.stage), task.partition));
    }

    /// Forgets a task's input before an offset, as retention does.
    pub fn trim_input(&self, task: TaskId, start: u64) {
        self.lock().partition((MemoryTopic::Input(task.stage), task.partition)).trim(start);
    }

    /// Moves the clock: late requests and markers arrive, silent members and long transactions are thrown out.
    pub fn advance(&self, ms: i64) {
        let mut state = self.lock();
        state.now_ms += ms;
        state.expire_transactions();
        let (now_ms, timeout_ms, tasks) = (state.now_ms, state.config.session_timeout_ms, state.tasks());
        state.group.expire(now_ms, timeout_ms, &tasks);
    }

    /// Holds back a task's input for so long, whoever reads it; 0 lets it come again.
    pub fn lag(&self, task: TaskId, ms: i64) {
        let mut state = self.lock();
        let until_ms = state.now_ms + ms;
        state.lags.insert(task, until_ms);
    }

    /// Time of the virtual clock.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.lock().now_ms
    }

    /// Replaces the faults to come. Returns the former ones, with what has struck.
    #[expect(clippy::must_use_candidate, reason = "the effect is the point")]
    pub fn set_faults(&self, faults: Faults) -> Faults {
        std::mem::replace(&mut self.lock().faults, faults)
    }

    /// Group instance id of the task's owner, while it has one.
    #[must_use]
    pub fn owner_of(&self, task: TaskId) -> Option<String> {
        self.lock().group.owner(task).map(str::to_owned)
    }

    /// Group instance ids of the members.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        self.lock().group.members().map(str::to_owned).collect()
    }

    /// Generation of the group.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lock().group.generation
    }

    /// A foreign producer writes one output inside a transaction and leaves it open.
    #[must_use]
    pub fn open_transaction(&self, id: &str, output: &Output) -> OpenTransaction {
        let mut state = self.lock();
        let epoch = state.init_producer(id);
        let (topic, partition) = state.place(output);
        // A producer that was just made cannot be fenced.
        let _ = state.produce(id, epoch, topic, MemoryRecord::of(output, partition));
        OpenTransaction { broker: self.clone(), id: id.to_owned(), epoch }
    }
}

impl MemoryRecord {
    pub(super) fn of(output: &Output, partition: u32) -> Self {
        Self {
            partition,
            offset: 0,
            key: Some(output.key.clone()),
            value: output.value.clone(),
            headers: output.headers.iter().map(|(name, value)| (name.to_owned(), Some(value.to_vec()))).collect(),
            timestamp_ms: output.timestamp_ms,
        }
    }
}

/// A foreign transaction. Dropping it leaves it open.
#[derive(Debug)]
pub struct OpenTransaction {
    broker: MemoryBroker,
    id: String,
    epoch: u64,
}

impl OpenTransaction {
    /// Ends it. Does nothing if it has timed out.
    pub fn end(self, commit: bool) {
        let _ = self.broker.lock().end(&self.id, self.epoch, commit, Markers::AtOnce);
    }
}
