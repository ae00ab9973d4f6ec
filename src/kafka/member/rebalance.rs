//! Rebalance events: the client's callback notes them, the lane acts (rule B1).
//!
//! From the event until `incremental_assign` or `incremental_unassign` the client holds all partitions paused and waits, so an
//! event that nobody answers stops the lane. A client that closes has no events ([`crate::client::closing`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Events that wait for the lane.
#[derive(Debug, Default)]
pub(crate) struct Rebalances {
    noted: Mutex<VecDeque<Change>>,
    /// The callback answers, at once: there is nothing to be done before.
    is_answered: bool,
    is_closing: AtomicBool,
}

impl Rebalances {
    /// Of a member that has nothing to make ready for a partition, and nothing to write before it goes.
    pub(crate) fn answered() -> Self {
        Self { is_answered: true, ..Self::default() }
    }

    /// The callback's whole work.
    pub(crate) fn on_event<C: ConsumerContext>(
        &self,
        consumer: &BaseConsumer<C>,
        event: RDKafkaRespErr,
        partitions: &TopicPartitionList,
    ) {
        if self.is_closing() {
            return;
        }
        let kind = match event {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Kind::Assigned,
            _ if consumer.assignment_lost() => Kind::Lost,
            _ => Kind::Revoked,
        };
        let change = Change { kind, partitions: partitions.clone() };
        if self.is_answered {
            change.answer(consumer);
        } else {
            self.noted.lock().unwrap_or_else(PoisonError::into_inner).push_back(change);
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

    /// The client is about to be closed: no event is answered any more.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
