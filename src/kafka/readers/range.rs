//! A fixed range of a topic, for replays: assigned, read as committed, its end fixed at the start, nothing written anywhere.
//!
//! Partitions come merged by record timestamp, each in its own order. A merge needs the next record of every partition: those that
//! are ahead wait in memory, up to a bound, and are then paused (split queues, which would do this in the client, stall).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loopwarden_core::event::{EventTime, Record, RecordMeta, RecordOffset};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{Flow, LogError, LogEvent};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset};

use crate::readers::reader::{Polled, Reader, silent};
use crate::{client::fate, client::message::read_headers, client::settings::KafkaOptions};

/// Bytes that all partitions together may hold while they wait for another.
const HELD_BYTES: usize = 64 << 20;
/// Bytes of one partition, whatever their number. Bounds from below and above.
const HELD_BYTES_MIN: usize = 256 << 10;
/// See above.
const HELD_BYTES_MAX: usize = 4 << 20;
/// What a held record costs besides its bytes.
const RECORD_OVERHEAD: usize = 160;

/// A place in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The oldest record.
    Beginning,
    /// The end as of now.
    End,
    /// An offset, the same in every partition.
    Offset(u64),
    /// The first record that is not older, Unix ms.
    Time(i64),
}

struct Held {
    offset: u64,
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Held {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = message.headers().map_or_else(Vec::new, read_headers);
        Self {
            offset: message.offset().max(0) as u64,
            timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect(),
        }
    }

    fn bytes(&self) -> usize {
        let of = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + of(value)).sum();
        of(&self.key) + of(&self.value) + headers + RECORD_OVERHEAD
    }
}

/// A partition of the range.
#[derive(Default)]
struct Source {
    /// Offset to come next: the client's own position is not relied upon.
    next: u64,
    /// Offset at which it ends.
    end: u64,
    held: VecDeque<Held>,
    bytes: usize,
    /// Everything before its end has come.
    is_read: bool,
    is_paused: bool,
}

/// A range with its offsets known: what is appended later is not part of it, however often it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent(BTreeMap<u32, std::ops::Range<u64>>);

/// Reads `[from, to)` of every partition of a topic.
pub struct KafkaRange {
    reader: Reader,
    topic: String,
    /// What it does, for messages.
    reading: String,
    sources: BTreeMap<u32, Source>,
    held_bytes_max: usize,
    value_bytes_max: usize,
    total: u64,
    records: u64,
    /// Until when something must come.
    idle: Deadline,
}

impl KafkaRange {
    /// Fixes a range and begins to read it.
    ///
    /// # Errors
    /// As [`KafkaRange::fix`].
    pub fn open(options: &KafkaOptions, from: Bound, to: Bound) -> Result<Self, LogError> {
        Self::read(options, &Self::fix(options, from, to)?)
    }

    /// Fixes a range. `options.topics.input` is the topic.
    ///
    /// # Errors
    /// E0101, E0102, E0103, or by fate.
    pub fn fix(options: &KafkaOptions, from: Bound, to: Bound) -> Result<Extent, LogError> {
        let topic = options.topics.input.clone();
        let reader = Reader::open(options, "range")?;
        let asking = format!("asking for topic \"{topic}\" on {}", options.bootstrap_servers);
        let metadata = reader.client().fetch_metadata(Some(&topic), limits::CONNECT_WAIT).map_err(|error| {
            match fate::of(&error, &asking) {
                LogError::Transient(cause) => fate::fatal(fate::E_UNREACHABLE, cause),
                other => other,
            }
        })?;
        let found = metadata.topics().first().filter(|topic| topic.error().is_none());
        let partitions = found.map_or(0, |topic| topic.partitions().len() as u32);
        if partitions == 0 {
            return Err(fate::fatal(fate::E_TOPIC_MISSING, format!("{asking}: it does not exist")));
        }
        let mut extent = BTreeMap::new();
        for partition in 0..partitions {
            let range = reader.range(&topic, partition)?;
            let resolve = |bound| -> Result<u64, LogError> {
                Ok(match bound {
                    Bound::Beginning => range.start,
                    Bound::End => range.end,
                    Bound::Offset(offset) => offset.clamp(range.start, range.end),
                    Bound::Time(time_ms) => {
                        reader.offset_at(&topic, partition, time_ms)?.unwrap_or(range.end).clamp(range.start, range.end)
                    }
                })
            };
            let (first, end) = (resolve(from)?, resolve(to)?);
            if first < end {
                extent.insert(partition, first..end);
            }
        }
        Ok(Extent(extent))
    }

    /// Begins to read a range.
    ///
    /// # Errors
    /// By fate.
    pub fn read(options: &KafkaOptions, extent: &Extent) -> Result<Self, LogError> {
        let topic = options.topics.input.clone();
        let reader = Reader::open(options, "range")?;
        let places = extent.0.iter().map(|(partition, offsets)| (*partition as i32, Offset::Offset(offsets.start as i64)));
        reader.assign(&topic, places, "assigning")?;
        let mut sources = BTreeMap::new();
        let mut total = 0;
        for (partition, offsets) in &extent.0 {
            sources.insert(*partition, Source { next: offsets.start, end: offsets.end, ..Source::default() });
            total += offsets.end - offsets.start;
        }
        let held_bytes_max = (HELD_BYTES / sources.len().max(1)).clamp(HELD_BYTES_MIN, HELD_BYTES_MAX);
        Ok(Self {
            reader,
            reading: format!("reading {topic}"),
            topic,
            sources,
            held_bytes_max,
            value_bytes_max: options.value_bytes_max,
            total,
            records: 0,
            idle: Deadline::after(limits::READ_IDLE_MAX),
        })
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Offsets of the range, over all partitions. At least its records: transactions leave gaps.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Records handed over so far.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Hands over records with their partition, the oldest first, until the handler stops, `wait` passes without one, or the range
    /// is read: [`LogEvent::End`].
    ///
    /// # Errors
    /// By fate; [`LogError::Transient`] also when the brokers are silent for too long, or records vanish before they are read.
    pub fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(u32, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        let deadline = Deadline::after(wait);
        let mut handed_over = 0;
        loop {
            while let Some((partition, held)) = self.take_oldest() {
                handed_over += 1;
                self.records += 1;
                let meta = RecordMeta {
                    topic: &self.topic,
                    partition,
                    offset: RecordOffset(held.offset),
                    timestamp: EventTime(held.timestamp_ms),
                    key: held.key.as_deref(),
                    headers: held.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
                    value_bytes_max: self.value_bytes_max,
                };
                let flow = handler(partition, &Record::new(meta, held.value.as_deref()));
                // Whoever takes the records may have taken its time: that is no silence of the brokers.
                self.idle = Deadline::after(limits::READ_IDLE_MAX);
                self.resume(partition)?;
                if flow == Flow::Stop || handed_over >= limits::POLL_RECORDS_MAX {
                    return Ok(LogEvent::Records(handed_over));
                }
            }
            if self.sources.is_empty() {
                return Ok(if handed_over == 0 { LogEvent::End } else { LogEvent::Records(handed_over) });
            }
            if !self.fetch(if handed_over == 0 { deadline.left() } else { Duration::ZERO })? {
                return Ok(LogEvent::Records(handed_over));
            }
        }
    }

    /// Takes the oldest record, once every partition shows its next one. Partitions that are done leave.
    fn take_oldest(&mut self) -> Option<(u32, Held)> {
        self.sources.retain(|_, source| !(source.is_read && source.held.is_empty()));
        let mut oldest: Option<(i64, u32)> = None;
        for (partition, source) in &self.sources {
            // Equal times go by partition: the merge is the same at every reading.
            let key = (source.held.front()?.timestamp_ms, *partition);
            oldest = Some(oldest.map_or(key, |oldest| oldest.min(key)));
        }
        let (_, partition) = oldest?;
        let source = self.sources.get_mut(&partition)?;
        let held = source.held.pop_front()?;
        source.bytes -= held.bytes();
        Some((partition, held))
    }

    /// Takes what has arrived; false when nothing came within the wait.
    fn fetch(&mut self, wait: Duration) -> Result<bool, LogError> {
        let polled = self.reader.poll(wait, &self.reading).map_err(|error| match error {
            LogError::OutOfRange(_) => {
                LogError::Transient(format!("topic \"{}\": records were deleted before they were read", self.topic))
            }
            other => other,
        })?;
        match polled {
            Polled::Record(message) => {
                let partition = message.partition().max(0) as u32;
                self.idle = Deadline::after(limits::READ_IDLE_MAX);
                let Some(source) = self.sources.get_mut(&partition) else { return Ok(true) };
                let held = Held::of(&message);
                let is_last = held.offset + 1 >= source.end;
                if (source.next..source.end).contains(&held.offset) {
                    source.next = held.offset + 1;
                    source.bytes += held.bytes();
                    source.held.push_back(held);
                }
                source.is_read |= is_last;
                let is_full = source.bytes >= self.held_bytes_max;
                if (is_last || is_full) && !std::mem::replace(&mut source.is_paused, true) {
                    // Of a partition that is read, what is appended from now on is not fetched.
                    self.reader.pause(&self.topic, partition as i32)?;
                }
            }
            // Control records may lie before the end: then only this event says that the partition is read.
            Polled::End(partition) => {
                self.idle = Deadline::after(limits::READ_IDLE_MAX);
                if let Some(source) = self.sources.get_mut(&(partition.max(0) as u32)) {
                    source.is_read = true;
                }
            }
            Polled::Nothing if self.idle.is_over() => return Err(silent(&format!("topic \"{}\"", self.topic))),
            Polled::Nothing => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a partition on that was ahead.
    fn resume(&mut self, partition: u32) -> Result<(), LogError> {
        let low = self.held_bytes_max / 2;
        let Some(source) = self.sources.get_mut(&partition) else { return Ok(()) };
        if !source.is_paused || source.is_read || source.bytes > low {
            return Ok(());
        }
        source.is_paused = false;
        self.reader.resume(&self.topic, partition as i32, source.next)
    }
}
