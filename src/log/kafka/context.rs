//! What the clients call back: log lines, errors, statistics, delivery reports.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread::Thread;

use rdkafka::ClientContext;
use rdkafka::Message;
use rdkafka::Statistics;
use rdkafka::TopicPartitionList;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaRespErr;

use crate::log::kafka::rebalance::Rebalances;

fn forward(level: RDKafkaLogLevel, facility: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => {
            tracing::warn!(target: "librdkafka", facility, "{line}");
        }
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::info!(target: "librdkafka", facility, "{line}"),
        RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{line}"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Context of clients that only ask and read: restores, administration, ranges.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlainContext;

impl ClientContext for PlainContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        forward(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::PartitionEOF) {
            tracing::debug!(target: "librdkafka", %error, "{reason}");
        }
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ConsumerContext for PlainContext {}

/// Context of a lane's consumer.
#[derive(Debug, Default)]
pub(super) struct ConsumerSide {
    pub(super) rebalances: Rebalances,
    /// Last stable offset per topic and partition, as of the last statistics.
    ends: Mutex<BTreeMap<(String, u32), u64>>,
}

impl ConsumerSide {
    pub(super) fn ends(&self) -> BTreeMap<(String, u32), u64> {
        lock(&self.ends).clone()
    }
}

impl ClientContext for ConsumerSide {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        forward(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, "{reason}");
    }

    // Every 5 s, some tens of kilobytes: parsing them costs the lane a fraction of a millisecond.
    fn stats(&self, statistics: Statistics) {
        let mut ends = lock(&self.ends);
        ends.clear();
        for (name, topic) in statistics.topics {
            for (number, partition) in topic.partitions {
                if let (Ok(number), Ok(end)) = (u32::try_from(number), u64::try_from(partition.ls_offset)) {
                    ends.insert((name.clone(), number), end);
                }
            }
        }
    }
}

impl ConsumerContext for ConsumerSide {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        self.rebalances.on_event(consumer, event, partitions);
    }
}

/// What the delivery reports of one commit said.
#[derive(Debug, Default)]
pub(super) struct Reports {
    commit: u32,
    /// The first record that was not acknowledged, and why.
    pub(super) first_error: Option<KafkaError>,
    /// Largest acknowledged offset per changelog slot.
    pub(super) largest: Vec<Option<u64>>,
    waker: Option<Thread>,
}

/// Which record of which commit a report is about: the commit's number and the changelog's slot, 0 for any other topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) commit: u32,
    pub(super) slot: u32,
}

impl Ticket {
    /// As the number librdkafka carries. Where `usize` has 32 bits, both halves keep 16.
    pub(super) const fn to_opaque(self) -> usize {
        ((self.commit as usize) << (usize::BITS / 2)) | (self.slot as usize)
    }

    const fn of(opaque: usize) -> (usize, usize) {
        (opaque >> (usize::BITS / 2), opaque & (usize::MAX >> (usize::BITS / 2)))
    }
}

/// Context of a lane's producer. Its methods run on the producer's poll thread.
#[derive(Debug, Default)]
pub(super) struct LaneContext {
    reports: Mutex<Reports>,
    reported: AtomicUsize,
    /// Reports after which the lane is woken.
    expected: AtomicUsize,
    failed: AtomicBool,
    /// Never cleared: the client reports the same failure once in 30 s, so that a second one might go unnoticed.
    broken: AtomicBool,
}

impl LaneContext {
    /// Begins to count for a commit, on behalf of the calling thread.
    pub(super) fn begin(&self, commit: u32, slots: usize) {
        self.expected.store(usize::MAX, Ordering::SeqCst);
        let mut reports = lock(&self.reports);
        *reports = Reports { commit, first_error: None, largest: vec![None; slots], waker: Some(std::thread::current()) };
        self.failed.store(false, Ordering::SeqCst);
        self.reported.store(0, Ordering::SeqCst);
    }

    /// All records are sent: the report that completes `sent` wakes the lane.
    pub(super) fn expect(&self, sent: usize) {
        self.expected.store(sent, Ordering::SeqCst);
    }

    pub(super) fn reported(&self) -> usize {
        self.reported.load(Ordering::SeqCst)
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Whether a request of this producer may be under way that nobody waits for any more (rule C17).
    pub(super) fn broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    pub(super) fn first_error(&self) -> Option<KafkaError> {
        lock(&self.reports).first_error.clone()
    }

    pub(super) fn largest(&self) -> Vec<Option<u64>> {
        lock(&self.reports).largest.clone()
    }
}

/// Whether a line tells that a connection in use broke, or that a request was given up. A connection that closes with one request in
/// flight, as a transaction's end, is a line only: the client makes no error event of it.
fn tells_of_a_lost_request(facility: &str, line: &str) -> bool {
    facility == "REQTMOUT" || (facility == "FAIL" && in_use(line))
}

/// librdkafka ends such lines with the state the connection was in.
fn in_use(line: &str) -> bool {
    line.contains("in state UP")
}

/// Whether an error event may leave a request under way: not if there was no connection to send one on.
fn leaves_a_request(error: &KafkaError, reason: &str) -> bool {
    let unconnected = matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve | RDKafkaErrorCode::AllBrokersDown)
    );
    !unconnected || in_use(reason)
}

impl ClientContext for LaneContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        if tells_of_a_lost_request(facility, line) {
            self.broken.store(true, Ordering::SeqCst);
        }
        forward(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if leaves_a_request(&error, reason) {
            self.broken.store(true, Ordering::SeqCst);
        }
        tracing::debug!(target: "librdkafka", %error, "{reason}");
    }

    fn stats_raw(&self, _statistics: &[u8]) {}
}

impl ProducerContext for LaneContext {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let (commit, slot) = Ticket::of(opaque);
        let mut reports = lock(&self.reports);
        // A report of an aborted commit that was purged late says nothing about this one.
        if commit != reports.commit as usize {
            return;
        }
        match result {
            Ok(message) => {
                if let Some(largest) = slot.checked_sub(1).and_then(|at| reports.largest.get_mut(at)) {
                    *largest = (*largest).max(u64::try_from(message.offset()).ok());
                }
            }
            Err((error, _)) => {
                reports.first_error.get_or_insert_with(|| error.clone());
                self.failed.store(true, Ordering::SeqCst);
            }
        }
        let reported = self.reported.fetch_add(1, Ordering::SeqCst) + 1;
        if (reported == self.expected.load(Ordering::SeqCst) || self.failed())
            && let Some(waker) = &reports.waker
        {
            waker.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_connection_leaves_a_request_and_a_refused_one_does_not() {
        assert!(tells_of_a_lost_request("FAIL", "b:9092/1: Disconnected (after 311ms in state UP)"));
        assert!(tells_of_a_lost_request("REQTMOUT", "b:9092/1: Timed out EndTxnRequest in flight"));
        assert!(!tells_of_a_lost_request("FAIL", "b:9092/1: Connect to ipv4#1.2.3.4:9092 failed (after 0ms in state CONNECT)"));
        let transport = KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure);
        assert!(leaves_a_request(&transport, "b:9092/1: Disconnected (after 311ms in state UP)"));
        assert!(!leaves_a_request(&transport, "b:9092/1: Connection refused (after 0ms in state CONNECT)"));
        assert!(leaves_a_request(&KafkaError::Global(RDKafkaErrorCode::Fatal), "whatever"));
    }

    #[test]
    fn a_ticket_survives_the_way_through_the_client() {
        let ticket = Ticket { commit: 7, slot: 3 };
        assert_eq!(Ticket::of(ticket.to_opaque()), (7, 3));
    }
}
