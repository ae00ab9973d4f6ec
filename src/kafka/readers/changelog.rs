//! Readers of changelogs and of the group's stable offsets, for restore threads.

use std::time::Duration;

use loopwarden_core::event::{NextOffset, Stage, TaskId};
use loopwarden_core::limits;
use loopwarden_log::{Changelog, ChangelogRange, Flow, LogError};
use rdkafka::Offset;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, Producer};

use crate::client::certificates::{Certificates, expect_let_in};
use crate::client::settings::{KafkaOptions, Start};
use crate::client::{bearer, closing::Bounded, identity, settings};
use crate::readers::reader::{Drained, Reader};
use crate::{client::context::PlainContext, topics::Topics};

/// Reads with the group's id, but never joins it. Clients are made when they are first needed.
pub struct KafkaChangelog {
    options: KafkaOptions,
    topics: Topics,
    /// One client per changelog topic: the EOF event names a partition, but no topic.
    session: Option<Reading>,
    swarm: Option<Reading>,
    /// Sees what is not committed too. Made only when the end of a changelog is in doubt.
    uncommitted: Option<Reader>,
    certificates: Certificates,
}

/// A client, and where it goes on by itself.
struct Reading {
    reader: Reader,
    /// The task it is assigned to, and the offset that it would hand over next. What it has fetched ahead of that is kept from one
    /// part of a restore to the next.
    at: Option<(TaskId, u64)>,
}

impl KafkaChangelog {
    pub(crate) fn new(options: KafkaOptions, topics: Topics) -> Self {
        let certificates = Certificates::new(&options.security);
        Self { options, topics, session: None, swarm: None, uncommitted: None, certificates }
    }

    fn reader(&mut self, stage: Stage) -> Result<&Reader, LogError> {
        Ok(&self.reading(stage)?.reader)
    }

    fn reading(&mut self, stage: Stage) -> Result<&mut Reading, LogError> {
        if self.certificates.are_new() {
            match Reader::open(&self.options, "renewal").and_then(|reader| expect_let_in(reader.client())) {
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
            Some(reading) => {
                reading.reader.serve()?;
                Ok(reading)
            }
            None => Ok(slot.insert(Reading { reader: Reader::open(&self.options, stage.as_str())?, at: None })),
        }
    }

    fn changelog_topic(&self, task: TaskId) -> Result<String, LogError> {
        self.topics.changelog_of(task).map(str::to_owned).ok_or_else(|| no_such_stage(task))
    }

    fn input_topic(&self, task: TaskId) -> Result<String, LogError> {
        self.topics.input_of(task).map(str::to_owned).ok_or_else(|| no_such_stage(task))
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

impl Changelog for KafkaChangelog {
    fn committed(&mut self, task: TaskId, wait: Duration) -> Result<Option<NextOffset>, LogError> {
        let topic = self.input_topic(task)?;
        let asking = format!("asking for the group's offset of {task}");
        let mut found = self.reader(task.stage)?.committed(&topic, [task.partition as i32], wait, &asking)?;
        let (_, offset) = found.pop().ok_or_else(|| LogError::Transient(format!("{asking}: no answer")))?;
        Ok(offset.map(NextOffset))
    }

    fn range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        let topic = self.changelog_topic(task)?;
        self.reader(task.stage)?.range(&topic, task.partition)
    }

    fn high_watermark(&mut self, task: TaskId) -> Result<u64, LogError> {
        let topic = self.changelog_topic(task)?;
        let reader = match &mut self.uncommitted {
            Some(reader) => reader,
            slot => slot.insert(Reader::uncommitted(&self.options)?),
        };
        reader.serve()?;
        Ok(reader.range(&topic, task.partition)?.end)
    }

    fn evict(&mut self, owner: &str) -> Result<bool, LogError> {
        let group = self.options.app.clone();
        // A changelog may say anything: of this group alone, and never the lane itself, whose producer ended what it had left.
        if !owner.starts_with(&format!("{group}-")) || owner == self.options.transactional_id() {
            return Ok(false);
        }
        let asking = format!("asking who is in group \"{group}\"");
        let reader = self.reader(Stage::Session)?;
        let known = reader.members(&group, limits::PLACE_ASK_WAIT).map_err(|error| reader.failed(&error, &asking))?;
        let is_gone = known.is_some_and(|members| !members.contains(&settings::client_id_of(owner)));
        if !is_gone {
            return Ok(false);
        }
        let tokens = self.options.security.tokens.clone();
        let context = PlainContext::new(tokens.clone());
        let config = settings::successor(&self.options, owner);
        let successor: Bounded<BaseProducer<_>> = Bounded::make(&config, context, "making the producer that takes over")?;
        bearer::hand_to(successor.client(), tokens.as_ref()).map_err(|error| identity::transient(&error))?;
        match successor.init_transactions(limits::TAKE_OVER_SLICE) {
            Err(error) if !is_ending(&error) => {
                Err(identity::fate_of(tokens.as_ref(), &error, &format!("taking over transactional id \"{owner}\"")))
            }
            _ => Ok(true),
        }
    }

    fn input_range(&mut self, task: TaskId) -> Result<ChangelogRange, LogError> {
        let topic = self.input_topic(task)?;
        self.reader(task.stage)?.range(&topic, task.partition)
    }

    fn read(
        &mut self,
        task: TaskId,
        from: u64,
        handler: &mut dyn FnMut(u64, &[u8], Option<&[u8]>) -> Flow,
    ) -> Result<u64, LogError> {
        let topic = self.changelog_topic(task)?;
        let Reading { reader, at } = self.reading(task.stage)?;
        let what = format!("reading {topic}/{}", task.partition);
        if at.take() != Some((task, from)) {
            reader.assign(&topic, [(task.partition as i32, Offset::Offset(from as i64))], &what)?;
        }
        let drained = reader.drain(from, &what, handler);
        if let Ok(Drained::Stopped(next)) = drained {
            *at = Some((task, next));
            return Ok(next);
        }
        // The end comes once for each assignment; and after an error nothing is fetched on.
        let unassigned = reader.unassign(&what);
        if drained.is_err() {
            // This one may have stopped reading for good ([`crate::client::standstill`]): another client tries again.
            match task.stage {
                Stage::Session => self.session = None,
                Stage::Swarm => self.swarm = None,
            }
        }
        let (Drained::Stopped(next) | Drained::End(next)) = drained?;
        unassigned.map(|()| next)
    }

    fn first_offset(&mut self, task: TaskId) -> Result<NextOffset, LogError> {
        let topic = self.input_topic(task)?;
        let range = self.reader(task.stage)?.range(&topic, task.partition)?;
        let offset = match self.options.start {
            // Where to begin is said of events: sums that lanes sent before this task began are of those that were to be read.
            _ if task.stage == Stage::Swarm => range.start,
            Start::Earliest => range.start,
            Start::Latest => range.end,
            Start::Time(time_ms) => self.reader(task.stage)?.offset_at(&topic, task.partition, time_ms)?.unwrap_or(range.end),
        };
        Ok(NextOffset(offset))
    }
}
