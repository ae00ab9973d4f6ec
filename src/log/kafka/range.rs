//! A fixed range of a topic, for replays: assigned, read as committed, its end fixed at the start, nothing written anywhere.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;

use crate::clock::Deadline;
use crate::event::EventTime;
use crate::event::Record;
use crate::event::RecordMeta;
use crate::event::RecordOffset;
use crate::limits;
use crate::log::Flow;
use crate::log::LogError;
use crate::log::LogEvent;
use crate::log::kafka::changelog;
use crate::log::kafka::consumer::read_headers;
use crate::log::kafka::context::PlainContext;
use crate::log::kafka::fate;
use crate::log::kafka::settings::KafkaOptions;

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

/// Reads `[from, to)` of every partition of a topic. Order is that of each partition; between partitions there is none.
pub struct KafkaRange {
    client: BaseConsumer<PlainContext>,
    topic: String,
    /// Offset at which each partition that is not yet finished ends.
    open: BTreeMap<u32, u64>,
    value_bytes_max: usize,
    records: u64,
}

impl KafkaRange {
    /// Fixes the range. `options.topics.input` is the topic.
    ///
    /// # Errors
    /// E0101, E0102, E0103, or by fate.
    pub fn open(options: &KafkaOptions, from: Bound, to: Bound) -> Result<Self, LogError> {
        let topic = options.topics.input.clone();
        let client = changelog::make(options, "range")?;
        let asking = format!("asking for topic \"{topic}\" on {}", options.bootstrap_servers);
        let metadata =
            client.fetch_metadata(Some(&topic), limits::CONNECT_WAIT).map_err(|error| match fate::of(&error, &asking) {
                LogError::Transient(cause) => fate::fatal(fate::E_UNREACHABLE, cause),
                other => other,
            })?;
        let found = metadata.topics().first().filter(|topic| topic.error().is_none());
        let partitions = found.map_or(0, |topic| topic.partitions().len() as u32);
        if partitions == 0 {
            return Err(fate::fatal(fate::E_TOPIC_MISSING, format!("{asking}: it does not exist")));
        }
        let mut list = TopicPartitionList::new();
        let mut open = BTreeMap::new();
        for partition in 0..partitions {
            let range = changelog::watermarks(&client, &topic, partition)?;
            let resolve = |bound| -> Result<u64, LogError> {
                Ok(match bound {
                    Bound::Beginning => range.start,
                    Bound::End => range.end,
                    Bound::Offset(offset) => offset.clamp(range.start, range.end),
                    Bound::Time(time_ms) => changelog::offset_at(&client, &topic, partition, time_ms)?
                        .unwrap_or(range.end)
                        .clamp(range.start, range.end),
                })
            };
            let (first, end) = (resolve(from)?, resolve(to)?);
            if first < end {
                list.add_partition_offset(&topic, partition as i32, Offset::Offset(first as i64))
                    .map_err(|error| fate::of(&error, "naming an offset"))?;
                open.insert(partition, end);
            }
        }
        client.assign(&list).map_err(|error| fate::of(&error, "assigning"))?;
        Ok(Self { client, topic, open, value_bytes_max: options.value_bytes_max, records: 0 })
    }

    /// Records handed over so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Hands over records with their partition until the handler stops, `wait` passes without one, or the range is read:
    /// [`LogEvent::End`].
    ///
    /// # Errors
    /// By fate.
    pub fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(u32, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        let deadline = Deadline::after(wait);
        let (mut records, mut bytes) = (0, 0);
        while !self.open.is_empty() && records < limits::POLL_RECORDS_MAX && bytes < limits::POLL_BYTES_MAX {
            match self.client.poll(if records == 0 { deadline.left() } else { Duration::ZERO }) {
                Some(Ok(message)) => {
                    let partition = message.partition().max(0) as u32;
                    let offset = message.offset().max(0) as u64;
                    let Some(end) = self.open.get(&partition).copied() else { continue };
                    if offset + 1 >= end {
                        finish(&self.client, &self.topic, &mut self.open, partition)?;
                    }
                    if offset >= end {
                        continue;
                    }
                    records += 1;
                    bytes += message.payload_len();
                    self.records += 1;
                    let meta = RecordMeta {
                        topic: &self.topic,
                        partition,
                        offset: RecordOffset(offset),
                        timestamp: EventTime(message.timestamp().to_millis().unwrap_or(0)),
                        key: message.key(),
                        headers: message.headers().map_or_else(Vec::new, read_headers),
                        value_bytes_max: self.value_bytes_max,
                    };
                    if handler(partition, &Record { meta, value: message.payload() }) == Flow::Stop {
                        break;
                    }
                }
                // Control records may lie before the end: then only this event says that the partition is read.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    finish(&self.client, &self.topic, &mut self.open, partition.max(0) as u32)?;
                }
                Some(Err(error)) => {
                    if let Some(error) = fate::of_running(&error) {
                        return Err(error);
                    }
                }
                None => break,
            }
        }
        if records == 0 && self.open.is_empty() { Ok(LogEvent::End) } else { Ok(LogEvent::Records(records)) }
    }
}

/// A partition is read to its end: what is appended to it from now on is not fetched.
fn finish(
    client: &BaseConsumer<PlainContext>,
    topic: &str,
    open: &mut BTreeMap<u32, u64>,
    partition: u32,
) -> Result<(), LogError> {
    open.remove(&partition);
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition as i32);
    client.pause(&list).map_err(|error| fate::of(&error, "pausing"))
}
