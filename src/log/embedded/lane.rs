//! The log of one lane: its partitions of both stages, one batch per commit (rule M2).

use std::{collections::BTreeMap, ops::ControlFlow, sync::PoisonError, sync::atomic::Ordering, time::Duration};

use loopwarden_core::event::{EventTime, NextOffset, Record, RecordMeta, RecordOffset, Stage, TaskId, partition_of};
use loopwarden_state::{Area, Change, RocksBatch, StateKey};

use crate::embedded::series::Series;
use crate::embedded::shared::{Committed, Extent, Writer};
use crate::{Changelog, CommitOutcome, Destination, Flow, InputEnd, Log, LogError, LogEvent, Output};
use crate::{
    embedded::append::put_event, embedded::broker::EmbeddedBroker, embedded::layout, embedded::record::Stored,
    embedded::shared::Feed,
};

#[derive(Debug, Clone, Copy)]
struct Reading {
    next: u64,
    running: bool,
}

/// What is left of a poll's bounds.
struct Room {
    records: usize,
    bytes: usize,
    handed_over: usize,
    stopped: bool,
}

/// A lane's view of the embedded log.
#[derive(Debug)]
pub struct EmbeddedLog {
    broker: EmbeddedBroker,
    owner: String,
    tasks: Vec<TaskId>,
    told: bool,
    readings: BTreeMap<TaskId, Reading>,
    last_served: Option<TaskId>,
    /// Calls it has heard. One that comes between two waits ends the second.
    calls: u64,
    staged: Vec<Output>,
}

impl EmbeddedBroker {
    /// The log of a lane. A lane has one.
    pub fn lane(&self, lane: u32) -> EmbeddedLog {
        EmbeddedLog::new(self.clone(), lane)
    }
}

impl EmbeddedLog {
    pub(super) fn new(broker: EmbeddedBroker, lane: u32) -> Self {
        let options = &broker.shared.options;
        let owner = format!("{}-{}-{lane}", options.app, options.instance);
        let mine = (0..options.partitions).filter(|partition| partition % options.lanes.max(1) == lane);
        let tasks = mine.flat_map(|partition| [Stage::Session, Stage::Swarm].map(|stage| TaskId { stage, partition })).collect();
        Self { broker, owner, tasks, told: false, readings: BTreeMap::new(), last_served: None, calls: 0, staged: Vec::new() }
    }

    /// Running tasks with something to read, and how far; waits for the first one, or until the lane is called.
    fn wait(&mut self, wait: Duration) -> Result<Vec<(TaskId, u64, u64)>, LogError> {
        let ready = |writer: &Writer| -> Vec<(TaskId, u64, u64)> {
            let after = self.readings.iter().filter(|(task, _)| Some(**task) > self.last_served);
            let before = self.readings.iter().filter(|(task, _)| Some(**task) <= self.last_served);
            let running = after.chain(before).filter(|(_, reading)| reading.running);
            let extents = running.filter_map(|(task, reading)| {
                let extent = writer.inputs.get(task)?;
                // Retention never passes a committed offset; only a first start can lie before it.
                let next = reading.next.max(extent.start);
                (next < extent.next).then_some((*task, next, extent.next))
            });
            extents.collect()
        };
        let shared = &self.broker.shared;
        let waiting = shared.arrived.wait_timeout_while(shared.writer(), wait, |writer| {
            writer.failed.is_none() && writer.calls == self.calls && ready(writer).is_empty()
        });
        let (writer, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        let (calls, found) = (writer.calls, writer.failed.clone().map_or_else(|| Ok(ready(&writer)), Err));
        drop(writer);
        self.calls = calls;
        found
    }

    /// Hands over the records of one task as far as there is room. Returns the offset to go on from.
    fn read(
        &self,
        (task, from, to): (TaskId, u64, u64),
        room: &mut Room,
        handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow,
    ) -> Result<u64, LogError> {
        let options = &self.broker.shared.options;
        let mut next = from;
        self.broker.shared.numbered(Series::Input(task), from, to, &mut |offset, record, size| {
            if room.stopped || room.records == 0 || (room.handed_over > 0 && size > room.bytes) {
                return Ok(ControlFlow::Break(()));
            }
            let meta = RecordMeta {
                topic: options.names.of(task.stage),
                partition: task.partition,
                offset: RecordOffset(offset),
                timestamp: EventTime(record.timestamp_ms),
                key: record.key,
                headers: record.headers,
                value_bytes_max: options.value_bytes_max,
            };
            room.records -= 1;
            room.bytes = room.bytes.saturating_sub(size);
            room.handed_over += 1;
            next = offset + 1;
            room.stopped = handler(task, &Record::new(meta, record.value)) == Flow::Stop;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(next)
    }

    fn write(&self, staged: Vec<Output>, offsets: &[(TaskId, NextOffset)]) -> Result<CommitOutcome, LogError> {
        let shared = &self.broker.shared;
        let mut batch = shared.store.batch();
        let (mut numbered, mut rows) = (Vec::new(), Vec::new());
        for output in staged {
            match output.destination {
                Destination::Changelog(task) => {
                    let Some(key) = StateKey::from_changelog(&output.key) else {
                        return Ok(CommitOutcome::Aborted { cause: format!("{task}: a key of no known family"), reopen: false });
                    };
                    batch.change(&Change { task, key, value: output.value });
                }
                Destination::State => {
                    match output.value {
                        Some(_) => batch.put(Area::Outputs, &layout::row_key(&output.key), &encode(&output)),
                        None => batch.delete(Area::Outputs, &layout::row_key(&output.key)),
                    }
                    rows.push((output.key, output.value));
                }
                // An intake's, and there is none without Kafka.
                Destination::Events => {}
                Destination::Commands
                | Destination::DeadLetters { .. }
                | Destination::SwarmCounts
                | Destination::SwarmPartition { .. } => numbered.push((encode(&output), output)),
            }
        }
        for (task, next) in offsets {
            layout::put_offset(&mut batch, *task, next.0);
        }
        let mut writer = shared.writer();
        if let Some(error) = &writer.failed {
            return Err(error.clone());
        }
        let (inputs, feeds) = self.number(&mut batch, &writer, &numbered);
        self.broker.write(&mut writer, batch)?;
        let ends: Vec<(TaskId, u64)> = inputs.iter().map(|(task, extent)| (*task, extent.next)).collect();
        writer.inputs.extend(inputs);
        writer.feeds.extend(feeds);
        writer.offsets.extend(offsets.iter().map(|(task, next)| (*task, next.0)));
        drop(writer);
        if !ends.is_empty() {
            shared.arrived.notify_all();
        }
        let committed = Committed { rows: &rows, offsets, ends: &ends };
        for callback in shared.commit_callbacks.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            callback(&committed);
        }
        Ok(CommitOutcome::Committed { changelog_next: Vec::new() })
    }

    /// Gives outputs their numbers. Under the lock of M2.
    fn number(
        &self,
        batch: &mut RocksBatch,
        writer: &Writer,
        outputs: &[(Vec<u8>, Output)],
    ) -> (BTreeMap<TaskId, Extent>, BTreeMap<Feed, Extent>) {
        let (mut inputs, mut feeds) = (BTreeMap::new(), BTreeMap::new());
        for (bytes, output) in outputs {
            let feed = match output.destination {
                Destination::SwarmCounts | Destination::SwarmPartition { .. } => {
                    let partition = match output.destination {
                        Destination::SwarmPartition { partition } => partition,
                        _ => partition_of(&output.key, self.broker.shared.options.partitions),
                    };
                    put_event(batch, writer, &mut inputs, TaskId { stage: Stage::Swarm, partition }, bytes);
                    continue;
                }
                Destination::DeadLetters { .. } => Feed::DeadLetters,
                _ => Feed::Commands,
            };
            let extent = feeds.entry(feed).or_insert_with(|| writer.feeds.get(&feed).copied().unwrap_or_default());
            let key = layout::output_key(feed, extent.next);
            batch.put(Area::Outputs, &key, bytes);
            extent.next += 1;
            extent.appended_bytes += (key.len() + bytes.len()) as u64;
        }
        for (task, extent) in &inputs {
            layout::put_input(batch, *task, extent);
        }
        for (feed, extent) in &feeds {
            layout::put_feed(batch, *feed, extent);
        }
        (inputs, feeds)
    }
}

fn encode(output: &Output) -> Vec<u8> {
    let headers = output.headers.iter().map(|(name, value)| (name, Some(value))).collect();
    Stored { timestamp_ms: output.timestamp_ms, key: Some(&output.key), value: output.value.as_deref(), headers }.encode()
}

impl Log for EmbeddedLog {
    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if !self.told {
            self.told = true;
            return Ok(LogEvent::Assigned(self.tasks.clone()));
        }
        let options = &self.broker.shared.options;
        let mut room = Room { records: options.poll_records_max, bytes: options.poll_bytes_max, handed_over: 0, stopped: false };
        for (task, from, to) in self.wait(wait)? {
            let next = self.read((task, from, to), &mut room, handler)?;
            if next == from {
                break;
            }
            if let Some(reading) = self.readings.get_mut(&task) {
                reading.next = next;
            }
            self.last_served = Some(task);
        }
        Ok(LogEvent::Records(room.handed_over))
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        for task in tasks {
            self.readings.insert(*task, Reading { next: 0, running: false });
        }
        Ok(())
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        let Some(reading) = self.readings.get_mut(&task) else {
            return Err(LogError::Transient(format!("{task} is not assigned")));
        };
        let end = self.broker.input_range(task).end;
        if next.0 > end {
            // Everything up to there would be taken for done.
            let message = format!("{task} stands at {next}, but its input ends at {end}: state and log are not of one directory");
            return Err(LogError::Fatal { code: "E0502", message });
        }
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
        self.readings.retain(|task, _| !tasks.contains(task));
        Ok(())
    }

    fn stage(&mut self, output: Output) {
        self.staged.push(output);
    }

    fn discard(&mut self) {
        self.staged.clear();
    }

    /// In the write-ahead log when it returns; durable and visible to readers within [`EmbeddedOptions::sync_wait_max`].
    ///
    /// [`EmbeddedOptions::sync_wait_max`]: crate::embedded::EmbeddedOptions::sync_wait_max
    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let staged = std::mem::take(&mut self.staged);
        if offsets.is_empty() {
            return CommitOutcome::Aborted { cause: "a transaction without offsets would be unfenced".to_owned(), reopen: false };
        }
        // A failed write is for the store to say: `reopen` answers with its code, and the process ends.
        self.write(staged, offsets).unwrap_or_else(|error| CommitOutcome::Unknown { cause: error.to_string() })
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        self.staged.clear();
        self.broker.shared.writer().failed.clone().map_or(Ok(()), Err)
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(None)
    }

    fn commits_state(&self) -> bool {
        true
    }

    fn is_awaited(&self) -> bool {
        self.broker.shared.awaited.load(Ordering::Acquire) > 0
    }

    fn swarm_partitions(&self) -> u32 {
        self.broker.shared.options.partitions
    }

    fn input_ends(&self) -> Vec<InputEnd> {
        let end = |task: &TaskId| InputEnd { task: *task, end: self.broker.input_range(*task).end, held_back: 0, age_ms: 0 };
        self.readings.keys().map(end).collect()
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn close(&mut self, _leave: bool) -> Result<(), LogError> {
        self.staged.clear();
        self.readings.clear();
        Ok(())
    }
}
