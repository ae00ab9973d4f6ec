//! Reads the commands topic in a group of its own, and commits how far it is: each command once, and again after a failure.
//!
//! Nothing is fenced: two members may have the same command while partitions move. Who sends it on sends it at least once.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::{Destination, Headers, LogError, Output};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};
use rdkafka::{error::KafkaError, message::BorrowedMessage};

use crate::client::settings::{KafkaOptions, Start};
use crate::client::{bearer, fate, identity, settings};
use crate::client::{closing::Bounded, context::ConsumerSide, message::read_headers};
use crate::{client::rebalance::Rebalances, readers::reader::Reader};

/// A record and its place.
struct Placed {
    partition: i32,
    offset: i64,
    output: Output,
}

/// A member of a group that reads commands.
pub struct CommandFollower {
    consumer: Bounded<BaseConsumer<ConsumerSide>>,
    topic: String,
    /// Place of the record that was handed over last.
    taken: Option<(i32, i64)>,
    /// Records that came while another one was held.
    ahead: VecDeque<Placed>,
    /// Of each partition the offset behind what is done with, where that is not committed.
    done: BTreeMap<i32, i64>,
    is_paused: bool,
}

impl CommandFollower {
    /// Joins the group of these options ([`KafkaOptions::of_webhook`]). A group without offsets begins where `start` says.
    ///
    /// # Errors
    /// By fate: no broker, no topic, no permission.
    pub fn join(options: &KafkaOptions, start: Start) -> Result<Self, LogError> {
        if start != Start::Earliest {
            begin(options)?;
        }
        let topic = options.topics.commands.clone();
        let tokens = options.security.tokens.clone();
        let context = ConsumerSide::new(tokens.clone(), Rebalances::answered());
        let consumer: Bounded<BaseConsumer<_>> =
            Bounded::make(&settings::webhook_consumer(options), context, "making the consumer of commands")?;
        bearer::hand_to(consumer.client(), tokens.as_ref()).map_err(|error| identity::transient(&error))?;
        consumer.subscribe(&[topic.as_str()]).map_err(|error| fate::of(&error, "subscribing"))?;
        Ok(Self { consumer, topic, taken: None, ahead: VecDeque::new(), done: BTreeMap::new(), is_paused: false })
    }

    /// The next command, if there is one within this time.
    ///
    /// # Errors
    /// By fate.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Output>, LogError> {
        self.resume()?;
        while let Some(Placed { partition, offset, output }) = self.ahead.pop_front() {
            if self.has(partition) {
                self.taken = Some((partition, offset));
                return Ok(Some(output));
            }
        }
        Ok(self.poll(wait)?.map(|placed| {
            self.taken = Some((placed.partition, placed.offset));
            placed.output
        }))
    }

    /// Stays in the group while the record that was handed over last is held. Whether its partition is still ours.
    ///
    /// # Errors
    /// By fate.
    pub fn hold(&mut self, wait: Duration) -> Result<bool, LogError> {
        // Partitions that have come since the last time are read already.
        self.pause()?;
        if let Some(placed) = self.poll(wait)? {
            self.ahead.push_back(placed);
        }
        Ok(self.taken.is_some_and(|(partition, _)| self.has(partition)))
    }

    /// The record that was handed over last is done with.
    pub fn done(&mut self) {
        if let Some((partition, offset)) = self.taken.take() {
            self.done.insert(partition, offset + 1);
        }
    }

    /// Commits what is done with, as far as it is still ours to say. Where that fails, the next commit says it, or what is read again.
    ///
    /// # Errors
    /// By fate.
    pub fn commit(&mut self) -> Result<(), LogError> {
        let done = std::mem::take(&mut self.done);
        let mut list = TopicPartitionList::new();
        for (partition, offset) in done.into_iter().filter(|(partition, _)| self.has(*partition)) {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))
                .map_err(|error| fate::of(&error, "naming a partition"))?;
        }
        if list.count() == 0 {
            return Ok(());
        }
        self.consumer.commit(&list, CommitMode::Async).map_err(|error| fate::of(&error, "committing the offsets of commands"))
    }

    fn has(&self, partition: i32) -> bool {
        self.consumer.assignment().is_ok_and(|list| list.find_partition(&self.topic, partition).is_some())
    }

    fn poll(&self, wait: Duration) -> Result<Option<Placed>, LogError> {
        if let Some(found) = self.consumer.context().standstill.found() {
            return Err(LogError::Transient(found));
        }
        match self.consumer.poll(wait) {
            Some(Ok(message)) => Ok(Some(placed(&message))),
            Some(Err(error)) => self.fate_of(&error).map_or(Ok(None), Err),
            None => Ok(None),
        }
    }

    fn fate_of(&self, error: &KafkaError) -> Option<LogError> {
        let doing = format!("reading {}", self.topic);
        identity::of_refused(self.consumer.context().tokens(), error, &doing).or_else(|| fate::of_running(error, &doing))
    }

    fn pause(&mut self) -> Result<(), LogError> {
        let failed = |error| fate::of(&error, "pausing the commands");
        let list = self.consumer.assignment().map_err(failed)?;
        self.is_paused = true;
        if list.count() == 0 { Ok(()) } else { self.consumer.pause(&list).map_err(failed) }
    }

    fn resume(&mut self) -> Result<(), LogError> {
        if !std::mem::take(&mut self.is_paused) {
            return Ok(());
        }
        let failed = |error| fate::of(&error, "resuming the commands");
        let list = self.consumer.assignment().map_err(failed)?;
        if list.count() == 0 { Ok(()) } else { self.consumer.resume(&list).map_err(failed) }
    }
}

fn placed(message: &BorrowedMessage<'_>) -> Placed {
    let headers = message.headers().map(read_headers).unwrap_or_default();
    Placed {
        partition: message.partition(),
        offset: message.offset(),
        output: Output {
            destination: Destination::Commands,
            key: message.key().unwrap_or_default().to_vec(),
            value: message.payload().map(<[u8]>::to_vec),
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.unwrap_or_default())).collect::<Headers>(),
            timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
        },
    }
}

/// Commits the ends of all partitions of which the group knows nothing yet. Without it, what comes between a first start and the first
/// commit would be left out by a second start.
fn begin(options: &KafkaOptions) -> Result<(), LogError> {
    let reader = Reader::open(options, "start")?;
    let topic = &options.topics.commands;
    let asking = format!("asking for the offsets of group \"{}\"", options.app);
    let partitions = reader.partitions(topic, &asking)?;
    if partitions.is_empty() {
        return Err(fate::fatal(fate::E_TOPIC_MISSING, format!("{asking}: there is no topic \"{topic}\"")));
    }
    let mut ends = Vec::new();
    for (partition, _) in
        reader.committed(topic, partitions, limits::ASK_WAIT, &asking)?.into_iter().filter(|(_, offset)| offset.is_none())
    {
        ends.push((partition, reader.range(topic, partition.max(0) as u32)?.end));
    }
    // A group that has members is refused to who is none: they have done this, and it is asked again.
    if ends.is_empty() { Ok(()) } else { reader.move_group(topic, ends, &asking) }
}
