//! The log of one lane on the broker in memory.

use std::{collections::BTreeMap, time::Duration};

use loopwarden_core::event::{EventTime, Header, NextOffset, Record, RecordMeta, RecordOffset, TaskId};
use loopwarden_log::{Changelog, CommitOutcome, Destination, Flow, InputEnd, Log, LogError, LogEvent, Output};

use crate::transaction::{Markers, Refused};
use crate::{Fault, MemoryBroker, MemoryRecord, MemoryTopic, Step};
use crate::{broker::State, changelog::MemoryChangelog, group::Answer};

/// How long a lag lasts that a fault has made. Milliseconds.
const LAG_MS: i64 = 3_000;

#[derive(Debug, Clone, Copy)]
struct Reading {
    next: u64,
    running: bool,
}

/// A lane's producer and group membership. Dropping it is a crash: its transaction stays open until the same lane is opened
/// again, or time runs out.
#[derive(Debug)]
pub struct MemoryLog {
    broker: MemoryBroker,
    owner: String,
    member: String,
    incarnation: u64,
    generation: u64,
    epoch: u64,
    /// Rule C17: an error event came with an Ok; the producer is replaced before its next use.
    suspect: bool,
    dead: bool,
    /// The lane was told of a rebalance and has not answered yet: nothing is read until then.
    unanswered: bool,
    readings: BTreeMap<TaskId, Reading>,
    last_served: Option<TaskId>,
    staged: Vec<Output>,
}

enum Stopped {
    Outcome(CommitOutcome),
    Died,
}

impl MemoryLog {
    pub(super) fn open(broker: MemoryBroker, instance: &str, lane: u32) -> Self {
        let (owner, member, epoch, incarnation, generation);
        {
            let mut state = broker.lock();
            owner = format!("{}-{instance}-{lane}", state.config.app);
            member = format!("{instance}-{lane}");
            epoch = state.init_producer(&owner);
            let (now_ms, tasks) = (state.now_ms, state.tasks());
            incarnation = state.group.join(&member, now_ms, &tasks);
            generation = state.group.generation;
        }
        Self {
            broker,
            owner,
            member,
            incarnation,
            generation,
            epoch,
            suspect: false,
            dead: false,
            unanswered: false,
            readings: BTreeMap::new(),
            last_served: None,
            staged: Vec::new(),
        }
    }

    /// Whether a fault killed it: the process that held it is gone, and the handle answers nothing any more.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.dead
    }

    /// The lane dies here: what it staged is gone, an open transaction stays open.
    pub fn kill(mut self) {
        self.dead = true;
    }

    /// What the group has to say, if anything.
    fn membership(&mut self, state: &mut State) -> Result<Option<LogEvent>, LogError> {
        let now_ms = state.now_ms;
        let answer = state.group.heartbeat(&self.member, self.incarnation, now_ms);
        match answer {
            Answer::Fenced => Err(LogError::Lost(format!("FENCED_INSTANCE_ID: another process is {}", self.member))),
            Answer::Unknown if self.readings.is_empty() => {
                let tasks = state.tasks();
                self.incarnation = state.group.join(&self.member, now_ms, &tasks);
                Ok(Some(LogEvent::Records(0)))
            }
            Answer::Unknown if self.unanswered => Ok(Some(LogEvent::Records(0))),
            Answer::Unknown => {
                self.unanswered = true;
                Ok(Some(LogEvent::Lost(self.readings.keys().copied().collect())))
            }
            known => {
                self.generation = state.group.generation;
                let event = match known {
                    Answer::Assigned(tasks) => LogEvent::Assigned(tasks),
                    Answer::Revoked(tasks) => LogEvent::Revoked(tasks),
                    _ => return Ok(self.unanswered.then_some(LogEvent::Records(0))),
                };
                self.unanswered = true;
                Ok(Some(event))
            }
        }
    }

    /// Tasks in the order in which they are served: the one served last comes last.
    fn in_turn(&self) -> impl Iterator<Item = (&TaskId, &Reading)> {
        let after = self.readings.iter().filter(|(task, _)| Some(**task) > self.last_served);
        let before = self.readings.iter().filter(|(task, _)| Some(**task) <= self.last_served);
        after.chain(before)
    }

    /// The next records of the running tasks, beginning after the task served last.
    fn collect(&mut self, state: &mut State) -> Result<Vec<(TaskId, MemoryRecord)>, LogError> {
        for (task, reading) in self.readings.iter_mut().filter(|(_, reading)| reading.running) {
            let partition = state.partition((MemoryTopic::Input(task.stage), task.partition));
            if reading.next < partition.start() || reading.next > partition.high_watermark() {
                // As the client does it: said once, then silence until the next start.
                reading.running = false;
                return Err(LogError::OutOfRange(format!("OFFSET_OUT_OF_RANGE: {task} at {}", reading.next)));
            }
        }
        let mut batch = Vec::new();
        let now_ms = state.now_ms;
        let lagging: Vec<TaskId> = state.lags.iter().filter(|(_, until_ms)| **until_ms > now_ms).map(|(task, _)| *task).collect();
        for (task, reading) in self.in_turn().filter(|(task, reading)| reading.running && !lagging.contains(task)) {
            let room = state.config.poll_records_max.saturating_sub(batch.len());
            let partition = state.partition((MemoryTopic::Input(task.stage), task.partition));
            batch.extend(partition.committed(reading.next).take(room).map(|record| (*task, record.clone())));
        }
        Ok(batch)
    }

    fn fault(&self, state: &mut State, step: Step) -> Result<Option<Fault>, Stopped> {
        let aborted = |cause: &str, reopen| CommitOutcome::Aborted { cause: cause.to_owned(), reopen };
        let Some(fault) = state.faults.decide(&self.owner, step) else { return Ok(None) };
        match fault {
            Fault::Die => Err(Stopped::Died),
            Fault::Abort => {
                state.finish(&self.owner, false);
                Err(Stopped::Outcome(aborted("delivery failed", false)))
            }
            Fault::Suspect => Err(Stopped::Outcome(aborted("delivery failed, and so did the abort", true))),
            Fault::Fenced => {
                // Somebody else opened this id, and went away again.
                state.init_producer(&self.owner);
                Ok(None)
            }
            Fault::Rebalance => {
                state.group.generation += 1;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    fn refused(&self, state: &mut State, refused: Refused) -> Stopped {
        Stopped::Outcome(match refused {
            Refused::Fenced => CommitOutcome::Fenced { cause: "PRODUCER_FENCED".to_owned() },
            Refused::Group(cause) => {
                state.finish(&self.owner, false);
                CommitOutcome::Aborted { cause: cause.to_owned(), reopen: false }
            }
        })
    }

    fn transact(
        &mut self,
        state: &mut State,
        staged: &[Output],
        offsets: &[(TaskId, NextOffset)],
    ) -> Result<CommitOutcome, Stopped> {
        let (id, epoch) = (self.owner.clone(), self.epoch);
        self.fault(state, Step::Begin)?;
        state.check_epoch(&id, epoch).map_err(|refused| self.refused(state, refused))?;
        let mut changelog_next: BTreeMap<TaskId, u64> = BTreeMap::new();
        for (index, output) in staged.iter().enumerate() {
            if index == staged.len() / 2 {
                state.deliver_late(&id);
                self.fault(state, Step::Send)?;
            }
            let (topic, partition) = state.place(output);
            let sent = state.produce(&id, epoch, topic, MemoryRecord::of(output, partition));
            let offset = sent.map_err(|refused| self.refused(state, refused))?;
            if let Destination::Changelog(task) = output.destination {
                changelog_next.insert(task, offset + 1);
            }
        }
        self.fault(state, Step::Offsets)?;
        let group = state.group.check(&self.member, self.incarnation, self.generation);
        state.add_offsets(&id, epoch, offsets, group).map_err(|refused| self.refused(state, refused))?;
        let unknown = |cause: &str| Stopped::Outcome(CommitOutcome::Unknown { cause: cause.to_owned() });
        match self.fault(state, Step::Commit)? {
            Some(Fault::AnswerLost { committed }) => {
                if committed {
                    state.end(&id, epoch, true, Markers::AtOnce).map_err(|refused| self.refused(state, refused))?;
                }
                return Err(unknown("no answer to EndTxn"));
            }
            Some(Fault::RequestLate) => {
                state.delay_commit(&id, epoch);
                return Err(unknown("EndTxn timed out"));
            }
            _ => {}
        }
        // Decided from here on. A death now is one after the decision.
        let after = state.faults.decide(&id, Step::AfterCommit);
        let markers = match after {
            Some(Fault::SlowMarkers { offsets_first: true }) => Markers::RecordsLater,
            Some(Fault::SlowMarkers { offsets_first: false }) => Markers::OffsetsLater,
            _ => Markers::AtOnce,
        };
        state.end(&id, epoch, true, markers).map_err(|refused| self.refused(state, refused))?;
        match after {
            Some(Fault::Die) => return Err(Stopped::Died),
            Some(Fault::DuplicateLate) => {
                state.delay_commit(&id, epoch);
                self.suspect = true;
            }
            _ => {}
        }
        Ok(CommitOutcome::Committed { changelog_next: changelog_next.into_iter().collect() })
    }
}

impl Log for MemoryLog {
    /// Never waits: without a record or an event it answers at once.
    fn poll(&mut self, _wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if self.dead {
            return Err(LogError::Lost("the lane is dead".to_owned()));
        }
        let broker = self.broker.clone();
        let (batch, names, value_bytes_max) = {
            let mut state = broker.lock();
            match state.faults.decide(&self.owner, Step::Poll) {
                Some(Fault::Rebalance) => state.group.generation += 1,
                Some(Fault::Forgotten) => state.group.forget(&self.member),
                Some(Fault::Lag) => {
                    let until_ms = state.now_ms + LAG_MS;
                    state.lags.extend(self.in_turn().next().map(|(task, _)| (*task, until_ms)));
                }
                Some(_) => return Err(LogError::Transient("the request timed out".to_owned())),
                None => {}
            }
            if let Some(event) = self.membership(&mut state)? {
                return Ok(event);
            }
            (self.collect(&mut state)?, state.config.names.clone(), state.config.value_bytes_max)
        };
        let mut count = 0;
        for (task, record) in &batch {
            let headers: Vec<Header<'_>> = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            let meta = RecordMeta {
                topic: names.of(task.stage),
                partition: task.partition,
                offset: RecordOffset(record.offset),
                timestamp: EventTime(record.timestamp_ms),
                key: record.key.as_deref(),
                headers,
                value_bytes_max,
            };
            if let Some(reading) = self.readings.get_mut(task) {
                reading.next = record.offset + 1;
            }
            self.last_served = Some(*task);
            count += 1;
            if handler(*task, &Record::new(meta, record.value.as_deref())) == Flow::Stop {
                break;
            }
        }
        Ok(LogEvent::Records(count))
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.unanswered = false;
        for task in tasks {
            self.readings.insert(*task, Reading { next: 0, running: false });
        }
        Ok(())
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        let Some(reading) = self.readings.get_mut(&task) else {
            return Err(LogError::Transient(format!("{task} is not assigned")));
        };
        *reading = Reading { next: next.0, running: true };
        Ok(())
    }

    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        if let Some(reading) = self.readings.get_mut(&task) {
            reading.running = false;
        }
        Ok(())
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.unanswered = false;
        for task in tasks {
            self.readings.remove(task);
        }
        if !self.dead {
            self.broker.lock().group.give_back(&self.member, self.incarnation, tasks);
        }
        Ok(())
    }

    fn stage(&mut self, output: Output) {
        self.staged.push(output);
    }

    fn discard(&mut self) {
        self.staged.clear();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let staged = std::mem::take(&mut self.staged);
        if self.dead {
            return CommitOutcome::Fenced { cause: "the lane is dead".to_owned() };
        }
        if offsets.is_empty() {
            return CommitOutcome::Aborted { cause: "a transaction without offsets would be unfenced".to_owned(), reopen: false };
        }
        let broker = self.broker.clone();
        let mut state = broker.lock();
        if self.suspect {
            self.suspect = false;
            self.epoch = state.init_producer(&self.owner);
        }
        match self.transact(&mut state, &staged, offsets) {
            Ok(outcome) | Err(Stopped::Outcome(outcome)) => outcome,
            Err(Stopped::Died) => {
                self.dead = true;
                CommitOutcome::Unknown { cause: "the lane died".to_owned() }
            }
        }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        if self.dead {
            return Err(LogError::Lost("the lane is dead".to_owned()));
        }
        self.suspect = false;
        self.staged.clear();
        self.epoch = self.broker.lock().init_producer(&self.owner);
        Ok(())
    }

    fn rejoin(&mut self, cause: &str) -> Result<(), LogError> {
        let mut state = self.broker.lock();
        if self.dead || !state.group.is_forgotten(&self.member) {
            return Err(LogError::Lost(cause.to_owned()));
        }
        if state.faults.decide(&self.owner, Step::Rejoin).is_some() {
            return Err(LogError::Transient("the coordinator is away".to_owned()));
        }
        let (now_ms, tasks) = (state.now_ms, state.tasks());
        self.incarnation = state.group.join(&self.member, now_ms, &tasks);
        self.readings.clear();
        self.unanswered = false;
        Ok(())
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(Some(Box::new(MemoryChangelog { broker: self.broker.clone() })))
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn swarm_partitions(&self) -> u32 {
        self.broker.lock().config.partitions.swarm
    }

    /// As of now: nothing is behind.
    fn input_ends(&self) -> Vec<InputEnd> {
        let state = self.broker.lock();
        let end = |task: &TaskId| {
            let place = (MemoryTopic::Input(task.stage), task.partition);
            InputEnd { task: *task, end: state.range(place).end, held_back: 0, age_ms: 0 }
        };
        self.readings.iter().filter(|(_, reading)| reading.running).map(|(task, _)| end(task)).collect()
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn close(&mut self, leave: bool) -> Result<(), LogError> {
        let mut state = self.broker.lock();
        if leave && !self.dead {
            let tasks = state.tasks();
            state.group.leave(&self.member, self.incarnation, &tasks);
        }
        self.dead = true;
        self.readings.clear();
        Ok(())
    }
}
