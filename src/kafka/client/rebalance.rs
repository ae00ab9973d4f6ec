//! Rebalance events: the client's callback notes them, the lane acts (rule B1).
//!
//! From the event until `incremental_assign` or `incremental_unassign` the client holds all partitions paused and waits, so an
//! event that nobody answers stops the lane. One that was answered is never answered again: where the client closes, that would wait for
//! ever, since by then nobody serves the call (2.12.1). So what the lane owes is kept, and paid before the client closes.
//!
//! While the client closes, only the first event is answered, with which it lets go of everything. Under the cooperative protocol it
//! sends a second one if a rebalance was under way, which needs no answer any more.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::{TopicPartitionList, types::RDKafkaRespErr};

/// What happened to the assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Assigned,
    Revoked,
    Lost,
}

/// One event, with its own copy of the list: the client's belongs to the event and dies with it.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) partitions: TopicPartitionList,
}

impl Change {
    /// Tells the client that it may go on.
    pub(crate) fn answer<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) {
        let answered = |partitions: &TopicPartitionList| match self.kind {
            Kind::Assigned => consumer.incremental_assign(partitions),
            Kind::Revoked | Kind::Lost => consumer.incremental_unassign(partitions),
        };
        // Where the client does not have what it asks for any more, an empty answer is one.
        if let Err(error) = answered(&self.partitions) {
            tracing::debug!(%error, kind = ?self.kind, "a rebalance is answered with nothing");
            let _ = answered(&TopicPartitionList::new());
        }
    }
}

/// The lane answers.
const OPEN: u8 = 0;
/// The callback answers, at once.
const ANSWERED: u8 = 1;
/// The client closes: the callback answers once.
const CLOSING: u8 = 2;
/// It has answered.
const CLOSED: u8 = 3;

/// Events that wait for the lane.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    noted: Mutex<VecDeque<Change>>,
    /// What the lane was given and has not answered.
    owed: Mutex<Option<Change>>,
    phase: AtomicU8,
}

impl Rebalances {
    /// Of a member that has nothing to make ready for a partition, and nothing to write before it goes.
    pub(crate) const fn answered() -> Self {
        Self { noted: Mutex::new(VecDeque::new()), owed: Mutex::new(None), phase: AtomicU8::new(ANSWERED) }
    }

    /// The callback's whole work.
    pub(crate) fn on_event<C: ConsumerContext>(
        &self,
        consumer: &BaseConsumer<C>,
        event: RDKafkaRespErr,
        partitions: &TopicPartitionList,
    ) {
        let kind = match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Kind::Assigned,
            _ if consumer.assignment_lost() => Kind::Lost,
            _ => Kind::Revoked,
        };
        let change = Change { kind, partitions: partitions.clone() };
        match self.phase.load(Ordering::Acquire) {
            OPEN => lock(&self.noted).push_back(change),
            ANSWERED => change.answer(consumer),
            CLOSING => {
                self.phase.store(CLOSED, Ordering::Release);
                change.answer(consumer);
            }
            _ => {}
        }
    }

    /// The oldest event not yet given to the lane, which owes an answer from now on.
    pub(crate) fn next(&self) -> Option<Change> {
        let change = lock(&self.noted).pop_front()?;
        *lock(&self.owed) = Some(change.clone());
        Some(change)
    }

    /// Whether an event waits for the lane.
    pub(crate) fn has_next(&self) -> bool {
        !lock(&self.noted).is_empty()
    }

    /// The lane has answered what it was given.
    pub(crate) fn paid(&self) {
        *lock(&self.owed) = None;
    }

    /// From now on the callback answers by itself. What the lane was given, or would be, is answered: each once.
    pub(crate) fn leave<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) {
        self.phase.store(ANSWERED, Ordering::Release);
        let owed = lock(&self.owed).take();
        let noted = std::mem::take(&mut *lock(&self.noted));
        for change in owed.into_iter().chain(noted) {
            change.answer(consumer);
        }
        // Nothing is fetched on, so that the queue ends.
        if let Ok(held) = consumer.assignment() {
            let _ = consumer.pause(&held);
        }
    }

    /// The same for a client that is about to be closed.
    pub(crate) fn close<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) {
        self.leave(consumer);
        self.phase.store(CLOSING, Ordering::Release);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
