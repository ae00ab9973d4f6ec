//! The client of all who read and ask without a place in a group: of restores, ranges, followers and administration.

use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{ChangelogRange, Flow, LogError};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use rdkafka::{client::Client, groups::GroupInfo, message::BorrowedMessage, metadata::MetadataPartition};

use crate::client::{bearer, fate, identity, settings};
use crate::client::{closing::Bounded, context::PlainContext, settings::KafkaOptions};

/// One wait of a read; between two the deadline is looked at.
const TURN: Duration = Duration::from_millis(200);

/// A consumer that is only ever assigned. It has the group's id to ask for its offsets, and never joins it.
pub(crate) struct Reader {
    client: Bounded<BaseConsumer<PlainContext>>,
}

/// What a poll brought.
pub(crate) enum Polled<'a> {
    Record(BorrowedMessage<'a>),
    /// This partition is read to its end as of now.
    End(i32),
    /// Nothing, or trouble that goes away by itself.
    Nothing,
}

/// How a read ended, with the offset to go on at.
pub(crate) enum Drained {
    /// The handler has enough for now.
    Stopped(u64),
    End(u64),
}

/// Takes offset, key and value of a record.
pub(crate) type Handler<'a> = dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow + 'a;

impl Reader {
    pub(crate) fn open(options: &KafkaOptions, name: &str) -> Result<Self, LogError> {
        Self::make(&settings::reader(options, name), options)
    }

    /// One that stays, and looks whether it still reads.
    pub(crate) fn watched(options: &KafkaOptions, name: &str) -> Result<Self, LogError> {
        Self::make(&settings::watched_reader(options, name), options)
    }

    /// One that sees the ends of partitions where records lie that are not committed, or not yet.
    pub(crate) fn uncommitted(options: &KafkaOptions) -> Result<Self, LogError> {
        Self::make(&settings::uncommitted_reader(options), options)
    }

    fn make(config: &ClientConfig, options: &KafkaOptions) -> Result<Self, LogError> {
        let context = PlainContext::new(options.security.tokens.clone());
        let reader = Self { client: Bounded::make(config, context, "making a reader")? };
        reader.serve()?;
        Ok(reader)
    }

    /// To be done before a question where the client may not have been polled for long.
    pub(crate) fn serve(&self) -> Result<(), LogError> {
        bearer::hand_to(self.client(), self.context().tokens()).map_err(|error| identity::transient(&error))
    }

    /// The client itself, where the very words of a broker matter.
    pub(crate) fn consumer(&self) -> &BaseConsumer<PlainContext> {
        &self.client
    }

    pub(crate) fn client(&self) -> &Client<PlainContext> {
        self.client.client()
    }

    pub(crate) fn context(&self) -> &PlainContext {
        self.client.context()
    }

    /// What a failed question means.
    pub(crate) fn failed(&self, error: &KafkaError, asking: &str) -> LogError {
        identity::fate_of(self.context().tokens(), error, asking)
    }

    /// First offset that exists, and the end as the client sees it: the last stable offset, for one that reads what is committed.
    pub(crate) fn range(&self, topic: &str, partition: u32) -> Result<ChangelogRange, LogError> {
        let asking = format!("asking for the range of {topic}/{partition}");
        match self.client.fetch_watermarks(topic, partition as i32, limits::ASK_WAIT) {
            Ok((start, end)) => Ok(ChangelogRange { start: start.max(0) as u64, end: end.max(0) as u64 }),
            // So says a client of a partition without a leader, too: while brokers come up, that is any of them.
            Err(error) if is_unknown_to_client(&error) && !self.is_missing(topic, partition) => {
                Err(LogError::Transient(format!("{asking}: {error}")))
            }
            Err(error) => Err(self.failed(&error, &asking)),
        }
    }

    /// Whether a broker says that there is no such partition.
    fn is_missing(&self, topic: &str, partition: u32) -> bool {
        self.client.fetch_metadata(Some(topic), limits::ASK_WAIT).is_ok_and(|metadata| {
            let known = metadata.topics().iter().find(|known| known.name() == topic);
            known.is_none_or(|known| match known.error().map(RDKafkaErrorCode::from) {
                None => known.partitions().iter().all(|known| known.id() != partition as i32),
                Some(error) => error == RDKafkaErrorCode::UnknownTopicOrPartition,
            })
        })
    }

    /// Ids of the partitions of a topic; none where there is no such topic.
    pub(crate) fn partitions(&self, topic: &str, asking: &str) -> Result<Vec<i32>, LogError> {
        let metadata = self.client.fetch_metadata(Some(topic), limits::ASK_WAIT).map_err(|error| self.failed(&error, asking))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        Ok(found.map(|found| found.partitions().iter().map(MetadataPartition::id).collect()).unwrap_or_default())
    }

    /// The first offset whose record is not older than a time; `None` when all are.
    pub(crate) fn offset_at(&self, topic: &str, partition: u32, time_ms: i64) -> Result<Option<u64>, LogError> {
        let asking = format!("asking for the offset of a time in {topic}/{partition}");
        let list = list_of(topic, [(partition as i32, Offset::Offset(time_ms.max(0)))], &asking)?;
        let found = self.client.offsets_for_times(list, limits::ASK_WAIT).map_err(|error| self.failed(&error, &asking))?;
        Ok(self.offsets_of(&found, &asking)?.pop().ok_or_else(|| LogError::Transient(format!("{asking}: no answer")))?.1)
    }

    /// The group's stable offset of each of these partitions, where it has one.
    pub(crate) fn committed(
        &self,
        topic: &str,
        partitions: impl IntoIterator<Item = i32>,
        wait: Duration,
        asking: &str,
    ) -> Result<Vec<(i32, Option<u64>)>, LogError> {
        let list = list_of(topic, partitions.into_iter().map(|partition| (partition, Offset::Invalid)), asking)?;
        let list = self.client.committed_offsets(list, wait).map_err(|error| self.failed(&error, asking))?;
        self.offsets_of(&list, asking)
    }

    fn offsets_of(&self, list: &TopicPartitionList, asking: &str) -> Result<Vec<(i32, Option<u64>)>, LogError> {
        let of = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            element.error().map_err(|error| self.failed(&error, asking))?;
            let offset = match element.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            };
            Ok((element.partition(), offset))
        };
        list.elements().into_iter().map(of).collect()
    }

    /// Has the group stand at these offsets. Brokers refuse it while the group has members.
    pub(crate) fn move_group(
        &self,
        topic: &str,
        offsets: impl IntoIterator<Item = (i32, u64)>,
        moving: &str,
    ) -> Result<(), LogError> {
        let places = offsets.into_iter().map(|(partition, offset)| (partition, Offset::Offset(offset as i64)));
        let list = list_of(topic, places, moving)?;
        self.client.commit(&list, CommitMode::Sync).map_err(|error| self.failed(&error, moving))
    }

    /// The client ids of a group's members; `None` where its coordinator lists none of that name, as before it has loaded the group, or
    /// has nothing to say of it, as after it has moved: one that has offsets is listed with or without members, and then it is in some
    /// state.
    pub(crate) fn members(&self, group: &str, wait: Duration) -> KafkaResult<Option<Vec<String>>> {
        let found = self.client.fetch_group_list(Some(group), wait)?;
        let client_ids = |known: &GroupInfo| known.members().iter().map(|member| member.client_id().to_owned()).collect();
        let is_known = |known: &&GroupInfo| !matches!(known.state(), "" | "Dead");
        Ok(found.groups().first().filter(is_known).map(client_ids))
    }

    /// Reads these partitions from here on, and no others.
    pub(crate) fn assign(
        &self,
        topic: &str,
        places: impl IntoIterator<Item = (i32, Offset)>,
        doing: &str,
    ) -> Result<(), LogError> {
        let list = list_of(topic, places, doing)?;
        self.client.assign(&list).map_err(|error| fate::of(&error, doing))
    }

    pub(crate) fn unassign(&self, doing: &str) -> Result<(), LogError> {
        self.client.unassign().map_err(|error| fate::of(&error, doing))
    }

    /// Fetches no more of a partition.
    pub(crate) fn pause(&self, topic: &str, partition: i32) -> Result<(), LogError> {
        let list = list_of(topic, [(partition, Offset::Invalid)], "pausing")?;
        self.client.pause(&list).map_err(|error| fate::of(&error, "pausing"))
    }

    /// Fetches a partition again, from an offset on.
    pub(crate) fn resume(&self, topic: &str, partition: i32, next: u64) -> Result<(), LogError> {
        let reading = format!("reading {topic}/{partition} on from offset {next}");
        let failed = |error: KafkaError| self.failed(&error, &reading);
        let list = list_of(topic, [(partition, Offset::Offset(next as i64))], &reading)?;
        let sought = self.client.seek_partitions(list, limits::SEEK_WAIT).map_err(failed)?;
        if let Some(error) = sought.elements().iter().find_map(|element| element.error().err()) {
            return Err(failed(error));
        }
        self.client.resume(&list_of(topic, [(partition, Offset::Invalid)], &reading)?).map_err(failed)
    }

    /// The next record, or the end of a partition.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] where what was to come is gone; else by fate.
    pub(crate) fn poll(&self, wait: Duration, reading: &str) -> Result<Polled<'_>, LogError> {
        match self.client.poll(wait) {
            Some(Ok(message)) => Ok(Polled::Record(message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Polled::End(partition)),
            Some(Err(error)) => {
                let refused = identity::of_refused(self.context().tokens(), &error, reading);
                refused.or_else(|| fate::of_running(&error, reading)).map_or(Ok(Polled::Nothing), Err)
            }
            None => Ok(Polled::Nothing),
        }
    }

    /// Reads the assigned partition to its end as of now (rule R4): control records leave gaps, so that the last record need not lie
    /// before the end.
    pub(crate) fn drain(&self, from: u64, reading: &str, handler: &mut Handler<'_>) -> Result<Drained, LogError> {
        let mut next = from;
        let mut idle = Deadline::after(limits::READ_IDLE_MAX);
        let mut turns = 0_u32;
        loop {
            match self.poll(TURN, reading) {
                Ok(Polled::Record(message)) => {
                    let offset = message.offset().max(0) as u64;
                    next = offset + 1;
                    if handler(offset, message.key().unwrap_or_default(), message.payload()) == Flow::Stop {
                        return Ok(Drained::Stopped(next));
                    }
                    // A clock per thousand records: a restore reads millions.
                    turns = turns.wrapping_add(1);
                    if turns.is_multiple_of(1_024) {
                        idle = Deadline::after(limits::READ_IDLE_MAX);
                    }
                }
                Ok(Polled::End(_)) => return Ok(Drained::End(next)),
                Ok(Polled::Nothing) => {}
                Err(LogError::OutOfRange(_)) => {
                    return Err(LogError::Transient(format!("{reading}: offset {next} is outside of the partition")));
                }
                Err(error) => return Err(error),
            }
            if idle.is_over() {
                return Err(silent(reading));
            }
        }
    }
}

/// Neither a record nor the end of a partition has come for too long.
pub(crate) fn silent(reading: &str) -> LogError {
    LogError::Transient(format!("{reading}: neither a record nor the end for {} s", limits::READ_IDLE_MAX.as_secs()))
}

fn is_unknown_to_client(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition))
}

fn list_of(topic: &str, places: impl IntoIterator<Item = (i32, Offset)>, doing: &str) -> Result<TopicPartitionList, LogError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in places {
        list.add_partition_offset(topic, partition, offset).map_err(|error| fate::of(&error, doing))?;
    }
    Ok(list)
}
