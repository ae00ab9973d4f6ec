//! What the growth of the input does to the brokers: a producer of its own for changes of changelogs, more partitions, a look at what
//! nobody has read yet.

use std::{thread, time::Duration};

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{Flow, LogError};
use rdkafka::Offset;
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};

use crate::client::{bearer, closing::Bounded, fate, identity, settings};
use crate::readers::reader::{Drained, Reader};
use crate::{admin::operator::Operator, admin::topics::Admin, client::context::PlainContext, client::settings::KafkaOptions};

/// Name of its producer, in the place of a process's: two growths fence each other.
const INSTANCE: &str = "growth";

/// Between two questions whether new partitions are known.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// A record of a task's changelog: key, and value or tombstone.
pub type ChangelogRecord = (TaskId, Vec<u8>, Option<Vec<u8>>);

pub struct Grower {
    options: KafkaOptions,
    admin: Admin,
    operator: Operator,
    producer: Bounded<ThreadedProducer<PlainContext>>,
}

impl Grower {
    /// Connects, and ends a transaction that a growth before has left open.
    ///
    /// # Errors
    /// E0101 to E0103; that the take-over takes too long.
    pub fn connect(options: &KafkaOptions) -> Result<Self, LogError> {
        let options = KafkaOptions { instance: INSTANCE.to_owned(), ..options.clone() };
        let making = "taking over the transactional id of a growth";
        let context = PlainContext::new(options.security.tokens.clone());
        let producer: Bounded<ThreadedProducer<_>> =
            Bounded::make(&settings::producer(&options), context, "making the producer")?;
        bearer::hand_to(producer.client(), options.security.tokens.as_ref()).map_err(|error| identity::fatal(&error))?;
        let operator = Operator::connect_uneven(&options)?;
        producer.init_transactions(limits::TAKE_OVER_WAIT).map_err(|error| fate::of(&error, making))?;
        Ok(Self { admin: Admin::new(&options)?, operator, producer, options })
    }

    /// Members and changelogs of the group.
    pub const fn operator(&mut self) -> &mut Operator {
        &mut self.operator
    }

    /// Partitions of the input and of its changelog, as of the connecting.
    pub fn counts(&self) -> (u32, u32) {
        (self.operator.partitions().session, self.operator.changelog_partitions(Stage::Session))
    }

    /// Writes records of changelogs, all or nothing.
    ///
    /// # Errors
    /// The brokers'. Then nobody here knows whether they are there: the changelogs do.
    pub fn commit(&self, records: &[ChangelogRecord]) -> Result<(), LogError> {
        let writing = "writing to changelogs";
        let failed = |error| fate::of(&error, writing);
        self.producer.begin_transaction().map_err(failed)?;
        for (task, key, value) in records {
            let topic = self.options.changelog_topic(task.stage);
            let mut record: BaseRecord<'_, [u8], [u8]> =
                BaseRecord::to(&topic).key(key.as_slice()).partition(task.partition as i32);
            record.payload = value.as_deref();
            self.producer.send(record).map_err(|(error, _)| failed(error))?;
        }
        // A record that was refused fails the commit.
        self.producer
            .flush(limits::DRAIN_WAIT)
            .and_then(|()| self.producer.commit_transaction(limits::COMMIT_WAIT))
            .map_err(failed)
    }

    /// Gives the changelog of the input so many partitions, and looks at all topics again.
    ///
    /// # Errors
    /// E0103 without the permission Alter; the brokers'.
    pub fn grow_changelog(&mut self, partitions: u32) -> Result<(), LogError> {
        self.grow(&self.options.changelog_topic(Stage::Session), partitions)
    }

    /// Gives the input so many partitions, and looks at all topics again.
    ///
    /// # Errors
    /// E0103 without the permission Alter; the brokers'.
    pub fn grow_input(&mut self, partitions: u32) -> Result<(), LogError> {
        self.grow(&self.options.topics.input.clone(), partitions)
    }

    fn grow(&mut self, topic: &str, partitions: u32) -> Result<(), LogError> {
        self.admin.grow(topic, partitions)?;
        // Clients know the partitions that were there when they first asked.
        *self = Self::connect(&self.options)?;
        let deadline = Deadline::after(limits::ASK_WAIT);
        let asking = format!("asking for the partitions of \"{topic}\"");
        loop {
            let metadata = self.producer.client().fetch_metadata(Some(topic), limits::ASK_WAIT);
            let metadata = metadata.map_err(|error| fate::of(&error, &asking))?;
            if metadata.topics().iter().any(|known| known.partitions().len() >= partitions as usize) {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(LogError::Transient(format!(
                    "{asking}: a broker does not know all {partitions} yet; run this again"
                )));
            }
            thread::park_timeout(ASK_AGAIN);
        }
    }

    /// Hands over the key of each input record of a task from an offset to the end. Returns the offset behind the last one.
    ///
    /// # Errors
    /// The brokers'.
    pub fn unread(&self, task: TaskId, from: u64, visit: &mut dyn FnMut(u64, &[u8])) -> Result<u64, LogError> {
        let topic = self.options.input_topic(task.stage);
        let reader = Reader::open(&self.options, "unread")?;
        let from = from.max(reader.range(&topic, task.partition)?.start);
        let reading = format!("reading {topic}/{}", task.partition);
        reader.assign(&topic, [(task.partition as i32, Offset::Offset(from as i64))], &reading)?;
        let drained = reader.drain(from, &reading, &mut |offset, key, _| {
            visit(offset, key);
            Flow::Continue
        })?;
        let (Drained::Stopped(next) | Drained::End(next)) = drained;
        Ok(next)
    }
}
