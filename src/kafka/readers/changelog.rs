//! Readers of changelogs and of the group's stable offsets, for restore threads.

use std::time::Duration;

use loopwarden_core::event::{NextOffset, Stage, TaskId};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{Changelog, ChangelogRange, Flow, LogError};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataPartition;
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use crate::client::certificates::{Certificates, expect_let_in};
use crate::client::context::PlainContext;
use crate::client::settings::{KafkaOptions, Start};
use crate::client::{bearer, fate, identity, settings};
use crate::member::members::members;
use crate::topics::Topics;

/// Takes offset, key and value of a record.
type Handler<'a> = dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow + 'a;

/// One wait of a read; between two the deadline is looked at.
const TURN: Duration = Duration::from_millis(200);

/// Reads with the group's id, but never joins it. Clients are made when they are first needed.
pub struct KafkaChangelog {
    options: KafkaOptions,
    topics: Topics,
    /// One client per changelog topic: the EOF event names a partition, but no topic.
    session: Option<Reader>,
    swarm: Option<Reader>,
    /// Sees what is not committed too. Made only when the end of a changelog is in doubt.
    uncommitted: Option<BaseConsumer<PlainContext>>,
    certificates: Certificates,
}

/// A client, and where it goes on by itself.
struct Reader {
    client: BaseConsumer<PlainContext>,
    /// The task it is assigned to, and the offset that it would hand over next. What it has fetched ahead of that is kept from one
    /// part of a restore to the next.
    reading: Option<(TaskId, u64)>,
}

impl KafkaChangelog {
    pub(crate) fn new(options: KafkaOptions, topics: Topics) -> Self {
        let certificates = Certificates::new(&options.security);
        Self { options, topics, session: None, swarm: None, uncommitted: None, certificates }
    }

    fn client(&mut self, stage: Stage) -> Result<&BaseConsumer<PlainContext>, LogError> {
        Ok(&self.reader(stage)?.client)
    }

    fn reader(&mut self, stage: Stage) -> Result<&mut Reader, LogError> {
        if self.certificates.are_new() {
            match make(&self.options, "renewal").and_then(|client| expect_let_in(client.client())) {
                Ok(()) => (self.session, self.swarm, self.uncommitted) = (None, None, None),
                // The lane tells of it.
                Err(_) => self.certificates.put_off(),
            }
        }
        let slot = match stage {
            Stage::Session => &mut self.session,
            Stage::Swarm => &mut self.swarm,
        };
        match slot {
            Some(reader) => {
                serve(&reader.client, &self.options)?;
                Ok(reader)
            }
            None => Ok(slot.insert(Reader { client: make(&self.options, stage.as_str())?, reading: None })),
        }
    }

    fn changelog_topic(&self, task: TaskId) -> Result<String, LogError> {
        self.topics.changelog_of(task).map(str::to_owned).ok_or_else(|| no_such_stage(task))
    }

    fn input_topic(&self, task: TaskId) -> Result<String, LogError> {
        self.topics.input_of(task).map(str::to_owned).ok_or_else(|| no_such_stage(task))
    }

    fn watermarks(&mut self, topic: &str, task: TaskId) -> Result<ChangelogRange, LogError> {
        let client = self.client(task.stage)?;
        watermarks(client, topic, task.partition)
    }
}

/// Whether a transactional id could not be taken because its transaction is just being ended: as was asked for here, or by somebody else.
fn is_ending(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{ConcurrentTransactions, InvalidProducerEpoch, ProducerFenced};
    matches!(error.rdkafka_error_code(), Some(ConcurrentTransactions | InvalidProducerEpoch | ProducerFenced))
}

fn no_such_stage(task: TaskId) -> LogError {
    LogError::Transient(format!("stage of task {task} does not run in this group"))
}

/// A consumer that is only ever assigned.
pub(crate) fn make(options: &KafkaOptions, name: &str) -> Result<BaseConsumer<PlainContext>, LogError> {
    make_from(&settings::reader(options, name), options)
}

/// A reader that stays, and looks whether it still reads.
pub(crate) fn make_watched(options: &KafkaOptions, name: &str) -> Result<BaseConsumer<PlainContext>, LogError> {
    make_from(&settings::watched_reader(options, name), options)
}

fn make_from(config: &ClientConfig, options: &KafkaOptions) -> Result<BaseConsumer<PlainContext>, LogError> {
    let context = PlainContext::new(options.security.tokens.clone());
    let client = config.create_with_context(context).map_err(|error| fate::of(&error, "making a reader"))?;
    serve(&client, options)?;
    Ok(client)
}

/// What a failed question means.
fn failed(client: &BaseConsumer<PlainContext>, error: &KafkaError, asking: &str) -> LogError {
    identity::of_refused(client.context().tokens(), error, asking).unwrap_or_else(|| fate::of(error, asking))
}

/// Before a question to a client that may not have been polled for long.
fn serve(client: &BaseConsumer<PlainContext>, options: &KafkaOptions) -> Result<(), LogError> {
    bearer::hand_to(client.client(), options.security.tokens.as_ref()).map_err(|error| identity::transient(&error))
}

/// First offset that exists, and the end as the client sees it: the last stable offset, for one that reads what is committed.
pub(crate) fn watermarks(client: &BaseConsumer<PlainContext>, topic: &str, partition: u32) -> Result<ChangelogRange, LogError> {
    let asking = format!("asking for the range of {topic}/{partition}");
    match client.fetch_watermarks(topic, partition as i32, limits::ASK_WAIT) {
        Ok((start, end)) => Ok(ChangelogRange { start: start.max(0) as u64, end: end.max(0) as u64 }),
        // So says a client of a partition without a leader, too: while brokers come up, that is any of them.
        Err(error) if is_unknown_to_client(&error) && !is_missing(client, topic, partition) => {
            Err(LogError::Transient(format!("{asking}: {error}")))
        }
        Err(error) => Err(failed(client, &error, &asking)),
    }
}

fn is_unknown_to_client(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition))
}

/// Whether a broker says that there is no such partition.
fn is_missing(client: &BaseConsumer<PlainContext>, topic: &str, partition: u32) -> bool {
    client.fetch_metadata(Some(topic), limits::ASK_WAIT).is_ok_and(|metadata| {
        let known = metadata.topics().iter().find(|known| known.name() == topic);
        known.is_none_or(|known| match known.error().map(RDKafkaErrorCode::from) {
            None => known.partitions().iter().all(|known| known.id() != partition as i32),
            Some(error) => error == RDKafkaErrorCode::UnknownTopicOrPartition,
        })
    })
}

/// Ids of the partitions of a topic; none where there is no such topic.
pub(crate) fn partitions(client: &BaseConsumer<PlainContext>, topic: &str, asking: &str) -> Result<Vec<i32>, LogError> {
    let metadata = client.fetch_metadata(Some(topic), limits::ASK_WAIT).map_err(|error| fate::of(&error, asking))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    Ok(found.map(|found| found.partitions().iter().map(MetadataPartition::id).collect()).unwrap_or_default())
}

/// The first offset whose record is not older than a time; `None` when all are.
pub(crate) fn offset_at(
    client: &BaseConsumer<PlainContext>,
    topic: &str,
    partition: u32,
    time_ms: i64,
) -> Result<Option<u64>, LogError> {
    let asking = format!("asking for the offset of a time in {topic}/{partition}");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition as i32, Offset::Offset(time_ms.max(0)))
        .map_err(|error| failed(client, &error, &asking))?;
    let found = client.offsets_for_times(list, limits::ASK_WAIT).map_err(|error| failed(client, &error, &asking))?;
    let elements = found.elements();
    let element = elements.first().ok_or_else(|| LogError::Transient(format!("{asking}: no answer")))?;
    element.error().map_err(|error| failed(client, &error, &asking))?;
    Ok(match element.offset() {
        Offset::Offset(offset) => u64::try_from(offset).ok(),
        _ => None,
    })
}

/// Hands over offset and key of each record of a partition up to its end as of now. Returns the offset to go on from.
pub(crate) fn read_to_end(
    client: &BaseConsumer<PlainContext>,
    (topic, partition): (&str, u32),
    from: u64,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<u64, LogError> {
    let what = format!("reading {topic}/{partition}");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition as i32, Offset::Offset(from as i64))
        .and_then(|()| client.assign(&list))
        .map_err(|error| fate::of(&error, &what))?;
    let read = drain(client, from, &what, &mut |offset, key, _| {
        visit(offset, key);
        Flow::Continue
    })?;
    let (Drained::Stopped(next) | Drained::End(next)) = read;
    Ok(next)
}

impl Changelog for KafkaChangelog {
    fn committed(&mut self, task: TaskId, wait: Duration) -> Result<Option<NextOffset>, LogError> {
        let topic = self.input_topic(task)?;
        let client = self.client(task.stage)?;
        let asking = format!("asking for the group's offset of {task}");
        let mut list = TopicPartitionList::new();
        list.add_partition(&topic, task.partition as i32);
        let list = client.committed_offsets(list, wait).map_err(|error| failed(client, &error, &asking))?;
        let elements = list.elements();
        let element = elements.first().ok_or_else(|| LogError::Transient(format!("{asking}: no answer")))?;
        element.error().map_err(|error| failed(client, &error, &asking))?;
        Ok(match element.offset() {
            Offset::Offset(offset) => u64::try_from(offset).ok().map(NextOffset),
            _ => None,
        })
    }

    fn range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        let topic = self.changelog_topic(task)?;
        self.watermarks(&topic, task)
    }

    fn high_watermark(&mut self, task: TaskId) -> Result<u64, LogError> {
        let topic = self.changelog_topic(task)?;
        let client = match &mut self.uncommitted {
            Some(client) => client,
            slot => slot.insert(make_from(&settings::uncommitted_reader(&self.options), &self.options)?),
        };
        serve(client, &self.options)?;
        Ok(watermarks(client, &topic, task.partition)?.end)
    }

    fn evict(&mut self, owner: &str) -> Result<bool, LogError> {
        let group = self.options.app.clone();
        // A changelog may say anything: of this group alone, and never the lane itself, whose producer ended what it had left.
        if !owner.starts_with(&format!("{group}-")) || owner == self.options.transactional_id() {
            return Ok(false);
        }
        let asking = format!("asking who is in group \"{group}\"");
        let client = self.client(Stage::Session)?;
        let known = members(client, &group, limits::PLACE_ASK_WAIT).map_err(|error| fate::of(&error, &asking))?;
        let is_gone = known.is_some_and(|members| !members.contains(&settings::client_id_of(owner)));
        if !is_gone {
            return Ok(false);
        }
        let tokens = self.options.security.tokens.clone();
        let context = PlainContext::new(tokens.clone());
        let successor: BaseProducer<_> = settings::successor(&self.options, owner)
            .create_with_context(context)
            .map_err(|error| fate::of(&error, "making the producer that takes over"))?;
        bearer::hand_to(successor.client(), tokens.as_ref()).map_err(|error| identity::transient(&error))?;
        match successor.init_transactions(limits::TAKE_OVER_SLICE) {
            Err(error) if !is_ending(&error) => Err(fate::of(&error, &format!("taking over transactional id \"{owner}\""))),
            _ => Ok(true),
        }
    }

    fn input_range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        let topic = self.input_topic(task)?;
        self.watermarks(&topic, task)
    }

    fn read(
        &mut self,
        task: TaskId,
        from: u64,
        handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
    ) -> Result<u64, LogError> {
        let topic = self.changelog_topic(task)?;
        let Reader { client, reading } = self.reader(task.stage)?;
        let what = format!("reading {topic}/{}", task.partition);
        if reading.take() != Some((task, from)) {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&topic, task.partition as i32, Offset::Offset(from as i64))
                .and_then(|()| client.assign(&list))
                .map_err(|error| fate::of(&error, &what))?;
        }
        let drained = drain(client, from, &what, handler);
        if let Ok(Drained::Stopped(next)) = drained {
            *reading = Some((task, next));
            return Ok(next);
        }
        // The end is told once for each assignment; and after an error nothing is fetched on.
        let unassigned = client.unassign();
        if drained.is_err() {
            // This one may have stopped reading for good ([`crate::standstill`]): another client tries again.
            match task.stage {
                Stage::Session => self.session = None,
                Stage::Swarm => self.swarm = None,
            }
        }
        let (Drained::Stopped(next) | Drained::End(next)) = drained?;
        unassigned.map_err(|error| fate::of(&error, &what))?;
        Ok(next)
    }

    fn first_offset(&mut self, task: TaskId) -> Result<NextOffset, LogError> {
        let topic = self.input_topic(task)?;
        let range = self.watermarks(&topic, task)?;
        let offset = match self.options.start {
            // Where to begin is said of events: sums that lanes sent before this task began are of those that were to be read.
            _ if task.stage == Stage::Swarm => range.start,
            Start::Earliest => range.start,
            Start::Latest => range.end,
            Start::Time(time_ms) => offset_at(self.client(task.stage)?, &topic, task.partition, time_ms)?.unwrap_or(range.end),
        };
        Ok(NextOffset(offset))
    }
}

/// How reading ended, with the offset to go on at.
enum Drained {
    /// The handler has enough for now.
    Stopped(u64),
    /// There is nothing more.
    End(u64),
}

/// Reads to the EOF event (rule R4): control records leave gaps, so that the last record need not lie before the end.
fn drain(client: &BaseConsumer<PlainContext>, from: u64, reading: &str, handler: &mut Handler<'_>) -> Result<Drained, LogError> {
    let mut next = from;
    let mut idle = Deadline::after(limits::READ_IDLE_MAX);
    let mut turns = 0_u32;
    loop {
        match client.poll(TURN) {
            Some(Ok(message)) => {
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
            Some(Err(KafkaError::PartitionEOF(_))) => return Ok(Drained::End(next)),
            Some(Err(error)) => {
                if matches!(
                    error.rdkafka_error_code(),
                    Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange)
                ) {
                    return Err(LogError::Transient(format!("{reading}: offset {next} is outside of the partition")));
                }
                let refused = identity::of_refused(client.context().tokens(), &error, reading);
                if let Some(error) = refused.or_else(|| fate::of_running(&error, reading)) {
                    return Err(error);
                }
            }
            None => {}
        }
        if idle.is_over() {
            return Err(LogError::Transient(format!(
                "{reading}: neither a record nor the end for {} s",
                limits::READ_IDLE_MAX.as_secs()
            )));
        }
    }
}
