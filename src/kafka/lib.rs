//! The Kafka log: consumer group in, one transaction per commit out. The only module that knows the client library.
//!
//! Rules are those of page `commit`.

/// Topics, permissions and groups, seen and changed from outside.
pub mod admin {
    pub mod growth;
    pub mod operator;
    pub mod permissions;
    pub(crate) mod plan;
    pub mod topics;
}
/// Clients of librdkafka: their settings, what they call back, who they are, and what their errors mean.
pub mod client {
    pub(crate) mod answers;
    pub(crate) mod bearer;
    pub(crate) mod certificates;
    pub(crate) mod closing;
    pub(crate) mod context;
    pub mod fate;
    pub(crate) mod identity;
    pub(crate) mod message;
    pub(crate) mod native;
    pub(crate) mod rebalance;
    pub mod settings;
    pub(crate) mod standstill;
}
/// A lane as a member of the consumer group.
mod member {
    pub(crate) mod consumer;
    pub(crate) mod place;
}
/// Who writes: a lane in transactions, others each record once and in order.
pub mod producers {
    pub(crate) mod transactional;
    pub mod writer;
}
/// Who reads and is no member of the lanes' group.
pub mod readers {
    pub(crate) mod changelog;
    pub(crate) mod commands;
    pub(crate) mod follow;
    pub(crate) mod judged;
    pub mod range;
    pub(crate) mod reader;
}
mod topics;

use std::time::Duration;

use client::certificates::{Certificates, expect_let_in};
use client::fate;
pub use client::settings::{GroupProtocol, KafkaOptions, NativeSettings, Secret, Security, Start, TopicNames};
use loopwarden_core::event::{NextOffset, Record, TaskId};
use loopwarden_core::limits;
use loopwarden_log::clock::Deadline;
use loopwarden_log::{Changelog, CommitOutcome, CommitSteps, Flow, InputEnd, Log, LogError, LogEvent, Output, Partitions};
use member::{consumer::LaneConsumer, place::PlaceWatch};
use producers::transactional::LaneProducer;
pub use producers::writer::Forwarder;
pub use readers::changelog::KafkaChangelog;
pub use readers::commands::CommandFollower;
pub use readers::follow::{Followed, StateFollower};
pub use readers::judged::Judged;
use topics::Topics;

/// A lane's log on Kafka.
pub struct KafkaLog {
    options: KafkaOptions,
    owner: String,
    topics: Topics,
    /// Before the producer: a consumer that is still a member while its transaction is finished fences nobody.
    consumer: Option<LaneConsumer>,
    /// The lane's place in the group, once it was told that somebody else has it.
    place: Option<PlaceWatch>,
    /// Until when the group may refuse it: from the first time on until it is given something.
    refused_until: Option<Deadline>,
    producer: Option<LaneProducer>,
    certificates: Certificates,
    /// New clients take the place of the lane's own: the producer first, as at the start.
    renewal: Option<Renewal>,
    /// The producer must not begin another transaction: its last one's end is not known.
    suspect: bool,
    replaced: u64,
    /// A permission that the last commit lacked: trying again would not help.
    denied: Option<LogError>,
    staged: Vec<Output>,
    steps: CommitSteps,
}

/// How far new clients have come.
enum Renewal {
    /// The producer is there, and brokers let it in; its transactional id is not taken over yet.
    Producer(LaneProducer),
    /// The consumer is left.
    Consumer,
}

impl KafkaLog {
    /// Takes over the lane's transactional id, then joins the group (rule B6): an own transaction that was left open must be gone
    /// before anybody restores.
    ///
    /// # Errors
    /// [`LogError::Fatal`] E0101 to E0104 for brokers, topics, permissions; [`LogError::Transient`] when the take-over takes too long.
    pub fn open(options: KafkaOptions) -> Result<Self, LogError> {
        let certificates = Certificates::new(&options.security);
        let producer = LaneProducer::new(&options)?;
        let topics = Topics::fetch(producer.client(), &options)?;
        take_over(&producer, &options.transactional_id(), limits::TAKE_OVER_WAIT, || ())?;
        let consumer = LaneConsumer::join(&options, topics.clone())?;
        Ok(Self {
            owner: options.transactional_id(),
            options,
            topics,
            consumer: Some(consumer),
            place: None,
            refused_until: None,
            producer: Some(producer),
            certificates,
            renewal: None,
            suspect: false,
            replaced: 0,
            denied: None,
            staged: Vec::new(),
            steps: CommitSteps::default(),
        })
    }

    /// Partition counts of the inputs, as of the start.
    pub fn partitions(&self) -> Partitions {
        self.topics.partitions()
    }

    fn member(&mut self) -> Result<&mut LaneConsumer, LogError> {
        let Self { consumer, place, .. } = self;
        consumer
            .as_mut()
            .ok_or_else(|| place.as_ref().map_or_else(|| LogError::Lost("the log is closed".into()), PlaceWatch::lost))
    }

    /// Looks for a new certificate. Where brokers let it in, the lane gives its tasks up and takes new clients: what is not committed is read again.
    /// Where they do not, the clients that are there go on.
    fn look_for_a_certificate(&mut self) -> Result<(), LogError> {
        if self.renewal.is_some() || self.consumer.is_none() || !self.certificates.are_new() {
            return Ok(());
        }
        match LaneProducer::new(&self.options).and_then(|producer| expect_let_in(producer.client()).map(|()| producer)) {
            Ok(producer) => {
                self.renewal = Some(Renewal::Producer(producer));
                Err(LogError::Lost("the files of TLS were replaced: new clients take over".into()))
            }
            Err(error) => {
                self.certificates.put_off();
                let code = fate::E_NOT_AUTHORISED;
                tracing::warn!(code, "the new files of TLS cannot be used, the former certificate goes on: {error}");
                Ok(())
            }
        }
    }

    /// Where the client has stopped reading a partition, the lane gives its tasks up and takes a new consumer. The producer goes on.
    fn look_for_a_standstill(&mut self) -> Result<(), LogError> {
        let found = self.consumer.as_ref().filter(|_| self.renewal.is_none()).and_then(LaneConsumer::stands_still);
        let Some(found) = found else { return Ok(()) };
        tracing::warn!("{found}; a new client takes over");
        self.renewal = Some(Renewal::Consumer);
        Err(LogError::Lost(found))
    }

    fn renew(&mut self, renewal: Renewal) -> Result<(), LogError> {
        // A static member may come again; the group takes no notice.
        self.consumer = None;
        if let Renewal::Producer(producer) = renewal {
            self.suspect = true;
            if let Err(error) = take_over(&producer, &self.owner, limits::REOPEN_WAIT, || ()) {
                self.renewal = Some(Renewal::Producer(producer));
                return Err(error);
            }
            self.producer = Some(producer);
            self.suspect = false;
        }
        match LaneConsumer::join(&self.options, self.topics.clone()) {
            Ok(consumer) => self.consumer = Some(consumer),
            Err(error) => {
                self.renewal = Some(Renewal::Consumer);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Under the consumer protocol the group refuses who comes later, and says of nobody who is in it: to join is to ask, and takes no
    /// place from anybody. A process that was killed holds its own until the broker's session is over.
    fn join_again(&mut self, cause: &str) -> Result<(), LogError> {
        let is_refused = self.consumer.take().is_none_or(|consumer| consumer.is_refused());
        let until = self.refused_until.get_or_insert_with(|| Deadline::after(limits::REFUSED_WAIT_MAX));
        if !is_refused || until.is_over() {
            return Err(LogError::Lost(cause.to_owned()));
        }
        std::thread::park_timeout(limits::PLACE_SLICE);
        self.consumer = Some(LaneConsumer::join(&self.options, self.topics.clone())?);
        Ok(())
    }

    fn try_commit(&mut self, staged: &[Output], offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let refused = |cause: String, reopen| CommitOutcome::Aborted { cause, reopen };
        if offsets.is_empty() {
            return refused("a transaction without offsets would be unfenced".into(), false);
        }
        if self.suspect {
            return refused("the producer must be reopened first".into(), true);
        }
        if self.producer.as_ref().is_some_and(LaneProducer::is_broken) {
            if let Err(error) = self.reopen() {
                return refused(format!("replacing the producer: {error}"), true);
            }
            self.replaced += 1;
        }
        let (Some(consumer), Some(producer)) = (&mut self.consumer, &mut self.producer) else {
            return refused("the log is closed".into(), true);
        };
        consumer.refresh();
        match consumer.confirm(offsets) {
            Ok(()) => {}
            // What this lane holds of the task is behind; the store and the group say how far.
            Err(LogError::Lost(cause)) => {
                self.suspect = true;
                return CommitOutcome::Fenced { cause };
            }
            Err(error) => return refused(error.to_string(), false),
        }
        let list = match consumer.offsets(offsets) {
            Ok(list) => list,
            Err(error) => return refused(error.to_string(), false),
        };
        let ended = producer.commit(staged, &self.topics, &list, consumer.membership(), &mut self.steps);
        if matches!(ended.outcome, CommitOutcome::Committed { .. }) {
            consumer.moved(offsets);
        }
        self.denied = ended.denied;
        self.suspect = match ended.outcome {
            CommitOutcome::Committed { .. } => false,
            CommitOutcome::Aborted { reopen, .. } => reopen,
            CommitOutcome::Unknown { .. } | CommitOutcome::Fenced { .. } => true,
        };
        ended.outcome
    }
}

/// Runs `init_transactions` for `id` in slices, with `between` after each that was not enough.
fn take_over(producer: &LaneProducer, id: &str, wait: Duration, mut between: impl FnMut()) -> Result<(), LogError> {
    let deadline = Deadline::after(wait);
    while !producer.init(limits::TAKE_OVER_SLICE.min(deadline.left()))? {
        between();
        if deadline.is_over() {
            return Err(LogError::Transient(format!(
                "taking over transactional id \"{id}\" takes too long: the brokers do not answer, or do not end its last transaction"
            )));
        }
    }
    Ok(())
}

impl Log for KafkaLog {
    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if let Some(denied) = self.denied.take() {
            return Err(denied);
        }
        self.look_for_a_certificate()?;
        self.look_for_a_standstill()?;
        self.member()?.poll(wait, handler)
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.refused_until = None;
        self.member()?.assign(tasks)
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.member()?.start(task, next)
    }

    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.member()?.pause(task)
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.member()?.unassign(tasks)
    }

    fn stage(&mut self, output: Output) {
        self.staged.push(output);
    }

    fn discard(&mut self) {
        self.staged.clear();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let mut staged = std::mem::take(&mut self.staged);
        let outcome = self.try_commit(&staged, offsets);
        // The allocation is kept; what was staged is either visible or to be made again from the log.
        staged.clear();
        self.staged = staged;
        outcome
    }

    fn commit_steps(&self) -> Option<CommitSteps> {
        Some(self.steps)
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        let Self { options, consumer, producer, .. } = self;
        let consumer = consumer.as_mut().ok_or_else(|| LogError::Lost("the log is closed".into()))?;
        consumer.hold()?;
        self.suspect = true;
        *producer = None;
        let fresh = LaneProducer::new(options)?;
        let taken = take_over(&fresh, &self.owner, limits::REOPEN_WAIT, || consumer.turn(Duration::from_millis(1)));
        consumer.release()?;
        taken?;
        *producer = Some(fresh);
        self.suspect = false;
        Ok(())
    }

    fn producers_replaced(&self) -> u64 {
        self.replaced
    }

    fn rejoin(&mut self, cause: &str) -> Result<(), LogError> {
        if let Some(renewal) = self.renewal.take() {
            return self.renew(renewal);
        }
        if self.options.group_protocol == GroupProtocol::Consumer {
            return self.join_again(cause);
        }
        // From here on nobody speaks for the place, unless somebody else has it.
        if self.consumer.take().is_some_and(|consumer| consumer.is_fenced()) {
            self.place = Some(PlaceWatch::new(self.options.clone(), cause));
        }
        let is_free = self.place.as_mut().map_or(Ok(false), PlaceWatch::is_free)?;
        if is_free {
            self.consumer = Some(LaneConsumer::join(&self.options, self.topics.clone())?);
        }
        self.place = None;
        if is_free { Ok(()) } else { Err(LogError::Lost(cause.to_owned())) }
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(Some(Box::new(KafkaChangelog::new(self.options.clone(), self.topics.clone()))))
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn swarm_partitions(&self) -> u32 {
        self.topics.partitions().swarm
    }

    fn input_ends(&self) -> Vec<InputEnd> {
        self.consumer.as_ref().map_or_else(Vec::new, LaneConsumer::ends)
    }

    fn silent_ms(&self) -> Option<u64> {
        self.consumer.as_ref().and_then(LaneConsumer::silent_ms)
    }

    fn owner(&self) -> &str {
        &self.owner
    }

    fn close(&mut self, leave: bool) -> Result<(), LogError> {
        self.staged.clear();
        if let Some(consumer) = self.consumer.take()
            && leave
        {
            consumer.leave();
        }
        self.producer = None;
        Ok(())
    }
}
