//! Where a record came from: topic, partition, offset, time, key.

use std::fmt;

use crate::event::EventTime;

/// One partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: String,
    /// Partition number, from 0.
    pub partition: u32,
}

/// Offset of one record in its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RecordOffset(pub u64);

/// The offset to read next: last processed + 1, as Kafka's committed offset. Never the last one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NextOffset(pub u64);

impl RecordOffset {
    /// What is to be read once this record is done.
    #[must_use]
    pub const fn next(self) -> NextOffset {
        NextOffset(self.0 + 1)
    }
}

impl fmt::Display for NextOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One header of a record; a value may be null.
pub type Header<'a> = (&'a str, Option<&'a [u8]>);

/// Everything about a record but its value.
#[derive(Debug, Clone)]
pub struct RecordMeta<'a> {
    /// Topic it was read from.
    pub topic: &'a str,
    /// Partition it was read from.
    pub partition: u32,
    /// Its offset there.
    pub offset: RecordOffset,
    /// Record timestamp. The clock that bounds every event's own time.
    pub timestamp: EventTime,
    /// Record key, where there is one.
    pub key: Option<&'a [u8]>,
    /// Headers in record order; empty for most records, and then without allocation.
    pub headers: Vec<Header<'a>>,
    /// Largest value that is still decoded. Bytes.
    pub value_bytes_max: usize,
}

impl RecordMeta<'_> {
    /// Of an event that is judged before it has a place in any log: without topic, key and headers.
    #[must_use]
    pub const fn without_place(timestamp: EventTime, value_bytes_max: usize) -> Self {
        Self { topic: "", partition: 0, offset: RecordOffset(0), timestamp, key: None, headers: Vec::new(), value_bytes_max }
    }
}

/// A record as a log hands it over. The value is null for a tombstone.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    pub meta: RecordMeta<'a>,
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// A record with this value.
    #[must_use]
    pub const fn new(meta: RecordMeta<'a>, value: Option<&'a [u8]>) -> Self {
        Self { meta, value }
    }
}
