//! Events in: numbered, written, answered after the sync that covers them (rule M1).

use std::{collections::BTreeMap, time::Duration};

use loopwarden_core::event::{Header, Stage, TaskId, partition_of};
use loopwarden_state::{Area, RocksBatch};

use crate::embedded::shared::{Extent, Writer, Written};
use crate::embedded::{TICK_HEADER, layout};
use crate::{LogError, embedded::broker::EmbeddedBroker, embedded::record::Stored, embedded::scan::fatal};

/// Longest wait for a sync before an append gives up. The record may be there all the same: its sender tries again, and a
/// duplicate is dropped by its id.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(30);

/// One event to be appended.
#[derive(Debug, Clone, Default)]
pub struct Append<'a> {
    /// Record key: the session id. It chooses the partition.
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Headers, such as `traceparent`.
    pub headers: Vec<Header<'a>>,
    /// Record timestamp, Unix ms: the time of the append; in a demo the event's.
    pub timestamp_ms: i64,
}

impl EmbeddedBroker {
    /// Appends events, all or none, and waits until they are durable. Returns partition and offset of each.
    ///
    /// # Errors
    /// [`LogError::Transient`] when the log is full or the disk does not answer; [`LogError::Fatal`] after a failed write.
    pub fn append(&self, events: &[Append<'_>]) -> Result<Vec<(u32, u64)>, LogError> {
        let (places, written) = self.append_unsynced(events)?;
        if self.wait_synced(written, SYNC_WAIT_MAX)? {
            return Ok(places);
        }
        Err(LogError::Transient(format!("no sync for {} s", SYNC_WAIT_MAX.as_secs())))
    }

    /// Appends events, all or none, without waiting. The lanes see them at once: whatever comes of them is behind them in the
    /// write-ahead log, so a power cut takes both or the later one.
    ///
    /// # Errors
    /// As [`EmbeddedBroker::append`].
    pub fn append_unsynced(&self, events: &[Append<'_>]) -> Result<(Vec<(u32, u64)>, Written), LogError> {
        let partitions = self.shared.options.partitions;
        let records: Vec<(u32, Stored<'_>)> = events
            .iter()
            .map(|event| {
                let record = Stored {
                    timestamp_ms: event.timestamp_ms,
                    key: Some(event.key),
                    value: Some(event.value),
                    headers: event.headers.clone(),
                };
                (partition_of(event.key, partitions), record)
            })
            .collect();
        self.append_records(&records)
    }

    /// Appends a tick record to every session partition: time passes where nothing else comes (rule I3).
    ///
    /// # Errors
    /// As [`EmbeddedBroker::append`].
    pub fn append_tick(&self, timestamp_ms: i64) -> Result<Written, LogError> {
        let tick = Stored { timestamp_ms, key: None, value: None, headers: vec![(TICK_HEADER, Some(b"1"))] };
        let records: Vec<(u32, Stored<'_>)> =
            (0..self.shared.options.partitions).map(|partition| (partition, tick.clone())).collect();
        Ok(self.append_records(&records)?.1)
    }

    /// Appends an event to a partition of the caller's choice: for tests and imports that keep partitions.
    ///
    /// # Errors
    /// As [`EmbeddedBroker::append`].
    pub fn append_to(&self, partition: u32, event: &Append<'_>) -> Result<u64, LogError> {
        let record = Stored {
            timestamp_ms: event.timestamp_ms,
            key: Some(event.key),
            value: Some(event.value),
            headers: event.headers.clone(),
        };
        let (places, written) = self.append_records(&[(partition % self.shared.options.partitions, record)])?;
        self.wait_synced(written, SYNC_WAIT_MAX)?;
        Ok(places.first().map_or(0, |(_, offset)| *offset))
    }

    fn append_records(&self, records: &[(u32, Stored<'_>)]) -> Result<(Vec<(u32, u64)>, Written), LogError> {
        let encoded: Vec<(TaskId, Vec<u8>)> = records
            .iter()
            .map(|(partition, record)| (TaskId { stage: Stage::Session, partition: *partition }, record.encode()))
            .collect();
        let shared = &self.shared;
        let mut batch = shared.store.batch();
        let mut writer = shared.writer();
        if let Some(error) = &writer.failed {
            return Err(error.clone());
        }
        if writer.inputs.values().map(Extent::bytes).sum::<u64>() >= shared.options.log_bytes_max {
            return Err(LogError::Transient(format!("the log is full: {} bytes", shared.options.log_bytes_max)));
        }
        let mut changed = BTreeMap::new();
        let places = encoded
            .iter()
            .map(|(task, bytes)| (task.partition, put_event(&mut batch, &writer, &mut changed, *task, bytes)))
            .collect();
        for (task, extent) in &changed {
            layout::put_input(&mut batch, *task, extent);
        }
        let written = self.write(&mut writer, batch)?;
        writer.inputs.extend(changed);
        drop(writer);
        shared.arrived.notify_all();
        Ok((places, written))
    }

    /// Writes a batch under the lock and asks for a sync.
    pub(super) fn write(&self, writer: &mut Writer, batch: RocksBatch) -> Result<Written, LogError> {
        let bytes = batch.bytes();
        if let Err(error) = self.shared.store.write(batch) {
            let error = fatal(error);
            self.shared.fail(writer, &error);
            return Err(error);
        }
        writer.written += 1;
        writer.unsynced_bytes += bytes;
        self.shared.dirty.notify_one();
        Ok(Written(writer.written))
    }
}

/// Puts an input record into a batch under the next offset; `changed` holds the extents as they will be.
pub(super) fn put_event(
    batch: &mut RocksBatch,
    writer: &Writer,
    changed: &mut BTreeMap<TaskId, Extent>,
    task: TaskId,
    bytes: &[u8],
) -> u64 {
    let extent = changed.entry(task).or_insert_with(|| writer.inputs.get(&task).copied().unwrap_or_default());
    let offset = extent.next;
    let key = layout::event_key(task, offset);
    batch.put(Area::Events, &key, bytes);
    extent.next += 1;
    extent.appended_bytes += (key.len() + bytes.len()) as u64;
    offset
}
