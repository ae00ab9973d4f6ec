//! Rebalance events: the client's callback notes them, the lane acts (rule B1).
//!
//! From the event until `incremental_assign` or `incremental_unassign` the client holds all partitions paused and waits, so an
//! event that nobody answers stops the lane. When the lane goes, the callback answers at once: nobody else would.
//!
//! While the client closes, only the first event is answered, with which it lets go of everything. Under the cooperative protocol it
//! sends a second one if a rebalance was under way, and to answer that means to wait for ever: by then nobody serves the call.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

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
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) partitions: TopicPartitionList,
}

impl Change {
    /// Tells the client that it may go on.
    pub(crate) fn answer<C: ConsumerContext>(&self, consumer: &BaseConsumer<C>) {
        let answered = match self.kind {
            Kind::Assigned => consumer.incremental_assign(&self.partitions),
            Kind::Revoked | Kind::Lost => consumer.incremental_unassign(&self.partitions),
        };
        if let Err(error) = answered {
            tracing::debug!(%error, kind = ?self.kind, "rebalance answered in vain");
        }
    }
}

/// The lane answers.
const OPEN: u8 = 0;
/// The callback answers.
const LEAVING: u8 = 1;
/// The client closes: the callback answers once.
const CLOSING: u8 = 2;
/// It has answered.
const CLOSED: u8 = 3;

/// Events that wait for the lane.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    noted: Mutex<VecDeque<Change>>,
    /// Events ever seen: tells a poll that brought one from a poll that brought nothing.
    seen: AtomicUsize,
    phase: AtomicU8,
}

impl Rebalances {
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
        self.seen.fetch_add(1, Ordering::AcqRel);
        match self.phase.load(Ordering::Acquire) {
            OPEN => self.noted.lock().unwrap_or_else(PoisonError::into_inner).push_back(change),
            LEAVING => change.answer(consumer),
            CLOSING => {
                self.phase.store(CLOSED, Ordering::Release);
                change.answer(consumer);
            }
            _ => {}
        }
    }

    /// The oldest event not yet given to the lane.
    pub(crate) fn next(&self) -> Option<Change> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether an event waits for the lane.
    pub(crate) fn has_next(&self) -> bool {
        !self.noted.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Events ever seen.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::Acquire)
    }

    /// From now on the callback answers by itself.
    pub(crate) fn leave(&self) {
        self.phase.store(LEAVING, Ordering::Release);
    }

    /// The client is about to be closed.
    pub(crate) fn close(&self) {
        self.phase.store(CLOSING, Ordering::Release);
    }
}
