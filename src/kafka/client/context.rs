//! What the clients call back: log lines, errors, statistics, delivery reports.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, error::Error, thread::Thread};

use loopwarden_token::Tokens;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Message, Statistics, TopicPartitionList};
use rdkafka::{
    client::OAuthToken, config::RDKafkaLogLevel, message::DeliveryResult, producer::ProducerContext, types::RDKafkaRespErr,
};

use crate::{client::answers::Answers, client::bearer, client::rebalance::Rebalances, client::standstill::Standstill};

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

/// Why a client does not get through to a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The broker was there, and one of both sides would not have the other: certificate, mechanism, user, password.
    pub(crate) is_refused: bool,
    /// librdkafka's words.
    pub(crate) reason: String,
}

/// Context of clients that only ask and read: restores, administration, ranges.
#[derive(Debug, Default)]
pub(crate) struct PlainContext {
    failure: Mutex<Option<Failure>>,
    pub(crate) standstill: Standstill,
    tokens: Option<Tokens>,
}

impl PlainContext {
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self { tokens, ..Self::default() }
    }

    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// The last failure; one of those that do not go away by themselves outlasts all others.
    pub(crate) fn failure(&self) -> Option<Failure> {
        lock(&self.failure).clone()
    }
}

/// Of a producer that takes over a transactional id, or waits for its commit: that fails if a record does.
impl ProducerContext for PlainContext {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

impl ClientContext for PlainContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        // A connection that the broker closes without a word is a line, and no error event.
        if facility == "FAIL" {
            lock(&self.failure).get_or_insert_with(|| Failure { is_refused: false, reason: line.to_owned() });
        }
        forward(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        tracing::debug!(target: "librdkafka", %error, "{reason}");
        let is_refused = matches!(
            code,
            Some(
                RDKafkaErrorCode::Authentication
                    | RDKafkaErrorCode::SaslAuthenticationFailed
                    | RDKafkaErrorCode::UnsupportedSASLMechanism
                    | RDKafkaErrorCode::SSL
            )
        );
        // With TLS 1.3 a broker refuses a certificate only after the client's side of the handshake: then it is a broken connection.
        let is_refused = is_refused || reason.contains("SSL routines");
        // That all brokers are down says less than why one of them is.
        let says_more = !matches!(code, Some(RDKafkaErrorCode::AllBrokersDown));
        let mut failure = lock(&self.failure);
        if is_refused || (says_more && failure.as_ref().is_none_or(|failure| !failure.is_refused)) {
            *failure = Some(Failure { is_refused, reason: reason.to_owned() });
        }
    }

    // Those that ask and go have none.
    fn stats(&self, statistics: Statistics) {
        self.standstill.note(&statistics);
    }
}

impl ConsumerContext for PlainContext {}

/// Context of a lane's consumer.
#[derive(Debug, Default)]
pub(crate) struct ConsumerSide {
    pub(crate) rebalances: Rebalances,
    /// Per topic and partition, as of the last statistics.
    ends: Mutex<BTreeMap<(String, u32), Extent>>,
    pub(crate) standstill: Standstill,
    pub(crate) answers: Answers,
    tokens: Option<Tokens>,
}

/// How far a partition reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) stable: u64,
    /// Everything up to there was fetched and handed over.
    pub(crate) is_drained: bool,
    /// Records behind it, where it has not moved since the statistics before: a busy partition always has some transaction open.
    pub(crate) held_back: u64,
    /// When the client knew it, wall clock in Unix ms, to the second before.
    pub(crate) as_of_ms: i64,
}

impl Extent {
    /// `None` while the client has not fetched from the partition yet.
    fn of(partition: &rdkafka::statistics::Partition, before: Option<&Self>, as_of_ms: i64) -> Option<Self> {
        let stable = u64::try_from(partition.ls_offset).ok()?;
        let behind = u64::try_from(partition.hi_offset).unwrap_or_default().saturating_sub(stable);
        let is_stuck = before.is_some_and(|before| before.stable == stable);
        Some(Self {
            stable,
            is_drained: partition.fetchq_cnt == 0 && partition.next_offset >= partition.ls_offset,
            held_back: if is_stuck { behind } else { 0 },
            as_of_ms,
        })
    }
}

impl ConsumerSide {
    pub(crate) fn new(tokens: Option<Tokens>, rebalances: Rebalances) -> Self {
        Self { rebalances, tokens, ..Self::default() }
    }

    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    pub(crate) fn ends(&self) -> BTreeMap<(String, u32), Extent> {
        lock(&self.ends).clone()
    }
}

impl ClientContext for ConsumerSide {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        forward(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", %error, "{reason}");
    }

    // Every 2 s, some tens of kilobytes: parsing them costs the lane a fraction of a millisecond.
    fn stats(&self, statistics: Statistics) {
        self.standstill.note(&statistics);
        self.answers.note(&statistics);
        let mut ends = lock(&self.ends);
        let before = std::mem::take(&mut *ends);
        let as_of_ms = statistics.time.saturating_mul(1_000);
        for (name, topic) in statistics.topics {
            for (number, partition) in topic.partitions {
                let Ok(number) = u32::try_from(number) else { continue };
                let key = (name.clone(), number);
                if let Some(extent) = Extent::of(&partition, before.get(&key), as_of_ms) {
                    ends.insert(key, extent);
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
pub(crate) struct Reports {
    commit: u32,
    /// The first record that was not acknowledged, and why.
    pub(crate) first_error: Option<KafkaError>,
    /// Largest acknowledged offset per changelog slot.
    pub(crate) largest: Vec<Option<u64>>,
    waker: Option<Thread>,
}

/// Which record of which commit a report is about: the commit's number and the changelog's slot, 0 for any other topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) commit: u32,
    pub(crate) slot: u32,
}

impl Ticket {
    /// As the number librdkafka carries. Where `usize` has 32 bits, both halves keep 16.
    pub(crate) const fn to_opaque(self) -> usize {
        ((self.commit as usize) << (usize::BITS / 2)) | (self.slot as usize)
    }

    const fn of(opaque: usize) -> (usize, usize) {
        (opaque >> (usize::BITS / 2), opaque & (usize::MAX >> (usize::BITS / 2)))
    }
}

/// Context of a lane's producer. Its methods run on the producer's poll thread.
#[derive(Debug, Default)]
pub(crate) struct LaneContext {
    reports: Mutex<Reports>,
    reported: AtomicUsize,
    /// Reports after which the lane is woken.
    expected: AtomicUsize,
    failed: AtomicBool,
    /// Never cleared: the client reports the same failure once in 30 s, so that a second one might go unnoticed.
    broken: AtomicBool,
    /// What this identity may not do, in the client's words and ours.
    denied: Mutex<Option<String>>,
    tokens: Option<Tokens>,
}

impl LaneContext {
    pub(crate) fn new(tokens: Option<Tokens>) -> Self {
        Self { tokens, ..Self::default() }
    }

    pub(crate) const fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Begins to count for a commit, on behalf of the calling thread.
    pub(crate) fn begin(&self, commit: u32, slots: usize) {
        self.expected.store(usize::MAX, Ordering::SeqCst);
        let mut reports = lock(&self.reports);
        *reports = Reports { commit, first_error: None, largest: vec![None; slots], waker: Some(std::thread::current()) };
        self.failed.store(false, Ordering::SeqCst);
        self.reported.store(0, Ordering::SeqCst);
    }

    /// All records are sent: the report that completes `sent` wakes the lane.
    pub(crate) fn expect(&self, sent: usize) {
        self.expected.store(sent, Ordering::SeqCst);
    }

    pub(crate) fn reported(&self) -> usize {
        self.reported.load(Ordering::SeqCst)
    }

    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    /// Whether a request of this producer may be under way that nobody waits for any more (rule C17).
    pub(crate) fn broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// Notes a permission that is missing; of several the first.
    pub(crate) fn deny(&self, said: &str, permission: &str) {
        lock(&self.denied).get_or_insert_with(|| format!("{said}; the missing permission is {permission}"));
    }

    /// What was noted since the last time.
    pub(crate) fn take_denied(&self) -> Option<String> {
        lock(&self.denied).take()
    }

    pub(crate) fn first_error(&self) -> Option<KafkaError> {
        lock(&self.reports).first_error.clone()
    }

    pub(crate) fn largest(&self) -> Vec<Option<u64>> {
        lock(&self.reports).largest.clone()
    }
}

/// Whether a line tells that a connection in use broke, or that a request was given up. A connection that closes with one request in
/// flight, as a transaction's end, is a line only: the client makes no error event of it.
fn tells_of_a_lost_request(facility: &str, line: &str) -> bool {
    facility == "REQTMOUT" || (facility == "FAIL" && in_use(line))
}

/// Whether a line tells that the transaction must not have a topic.
fn tells_of_a_denied_topic(facility: &str, line: &str) -> bool {
    facility == "ADDPARTS" && line.contains("authorization failed")
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
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        bearer::answer(self.tokens.as_ref())
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        if tells_of_a_lost_request(facility, line) {
            self.broken.store(true, Ordering::SeqCst);
        }
        if tells_of_a_denied_topic(facility, line) {
            // Without the thread and the broker in front.
            let said = line.find("Failed to add").and_then(|at| line.get(at..)).unwrap_or(line);
            // No error of a record or of a commit names the topic.
            self.deny(said, "Write on that topic");
            // Its records would wait for their timeout.
            self.failed.store(true, Ordering::SeqCst);
            if let Some(waker) = &lock(&self.reports).waker {
                waker.unpark();
            }
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
    fn the_topic_that_refuses_a_transaction_is_known_by_its_line_only() {
        let context = LaneContext::default();
        let line =
            "[thrd:b:9092/1]: b:9092/1: Failed to add partition \"t\" [0] to transaction: Broker: Topic authorization failed";
        context.log(RDKafkaLogLevel::Error, "ADDPARTS", "[thrd:b:9092/1]: t [0] registered with transaction");
        assert_eq!(context.take_denied(), None);
        context.log(RDKafkaLogLevel::Error, "ADDPARTS", line);
        assert!(context.take_denied().is_some_and(|said| said.starts_with("Failed to add partition \"t\"")));
        assert_eq!(context.take_denied(), None);
    }

    #[test]
    fn a_refusal_outlasts_what_follows_from_it() {
        let context = PlainContext::default();
        let error = |code, reason| context.error(KafkaError::Global(code), reason);
        error(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(context.failure(), None);
        error(RDKafkaErrorCode::BrokerTransportFailure, "refused");
        assert_eq!(context.failure().map(|failure| failure.is_refused), Some(false));
        error(RDKafkaErrorCode::Authentication, "wrong password");
        error(RDKafkaErrorCode::BrokerTransportFailure, "closed");
        assert_eq!(context.failure(), Some(Failure { is_refused: true, reason: "wrong password".into() }));
    }

    #[test]
    fn an_open_transaction_holds_back_only_when_it_stays() {
        let seen = |ls_offset, hi_offset, next_offset| rdkafka::statistics::Partition {
            ls_offset,
            hi_offset,
            next_offset,
            ..rdkafka::statistics::Partition::default()
        };
        assert_eq!(Extent::of(&seen(-1001, -1001, 0), None, 7), None);
        let first = Extent::of(&seen(10, 14, 4), None, 7).expect("known");
        assert_eq!(first, Extent { stable: 10, is_drained: false, held_back: 0, as_of_ms: 7 });
        let next = |seen| Extent::of(&seen, Some(&first), 8);
        assert_eq!(next(seen(12, 14, 12)), Some(Extent { stable: 12, is_drained: true, held_back: 0, as_of_ms: 8 }));
        assert_eq!(next(seen(10, 15, 10)), Some(Extent { stable: 10, is_drained: true, held_back: 5, as_of_ms: 8 }));
    }

    #[test]
    fn a_ticket_survives_the_way_through_the_client() {
        let ticket = Ticket { commit: 7, slot: 3 };
        assert_eq!(Ticket::of(ticket.to_opaque()), (7, 3));
    }
}
