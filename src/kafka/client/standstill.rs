//! A client that has stopped reading a partition, and does not know it.
//!
//! When a partition has another leader, librdkafka asks it whether the records that were read are still its own (KIP-320). With 2.12.1 the
//! epoch it asks by has been seen to be a number that no leader ever had, after fifty restarts of a broker. The leader refuses it, the
//! client asks again, twice a second and for ever: no error, and the end of the partition as it last knew it, so no lag either. Only a new
//! client reads on. The statistics say which partitions wait for such an answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rdkafka::Statistics;

/// What the statistics call the wait.
const WAITS: &str = "validate-epoch-wait";
/// A broker that takes requests.
const UP: &str = "UP";
/// Longest wait while the leader is there. Microseconds: an answer takes milliseconds, a leader that is elected a few seconds.
const WAIT_US_MAX: i64 = 60_000_000;

/// What the statistics have said so far.
#[derive(Debug, Default)]
pub(crate) struct Standstill(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Since when a partition waits, by the client's monotonic clock in microseconds.
    since_us: BTreeMap<(String, i32), i64>,
    /// The first that has waited for too long.
    found: Option<(String, i32)>,
}

impl Standstill {
    /// Takes the statistics of one moment.
    pub(crate) fn note(&self, statistics: &Statistics) {
        let is_up = |leader: i32| statistics.brokers.values().any(|broker| broker.nodeid == leader && broker.state == UP);
        let partitions = statistics.topics.iter().flat_map(|(topic, about)| about.partitions.iter().map(move |of| (topic, of)));
        let waiting = partitions.filter(|(_, (_, about))| about.fetch_state == WAITS && is_up(about.leader));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut known.since_us);
        known.since_us = waiting
            .map(|(topic, (number, _))| (topic.clone(), *number))
            .map(|partition| (before.get(&partition).copied().unwrap_or(statistics.ts), partition))
            .map(|(since_us, partition)| (partition, since_us))
            .collect();
        let is_too_long = |since_us: &i64| statistics.ts.saturating_sub(*since_us) >= WAIT_US_MAX;
        known.found = known.since_us.iter().find(|(_, since_us)| is_too_long(since_us)).map(|(partition, _)| partition.clone());
    }

    /// A partition that only another client will read, for a message.
    pub(crate) fn found(&self) -> Option<String> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (topic, partition) = known.found.as_ref()?;
        let seconds = WAIT_US_MAX / 1_000_000;
        Some(format!(
            "{topic}/{partition} has not been read for {seconds} s: its leader refuses the epoch that the client asks by"
        ))
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::statistics::{Broker, Partition, Topic};

    use super::*;

    /// Statistics of a moment: partition 0 of a topic in this state, its leader in that one.
    fn at(seconds: i64, fetch_state: &str, broker: &str) -> Statistics {
        let partition = Partition { leader: 1, fetch_state: fetch_state.to_owned(), ..Partition::default() };
        let topic = Topic { partitions: [(0, partition)].into_iter().collect(), ..Topic::default() };
        let broker = Broker { nodeid: 1, state: broker.to_owned(), ..Broker::default() };
        Statistics {
            ts: seconds * 1_000_000,
            topics: [("events".to_owned(), topic)].into_iter().collect(),
            brokers: [("b:1/1".to_owned(), broker)].into_iter().collect(),
            ..Statistics::default()
        }
    }

    #[test]
    fn a_partition_that_waits_for_a_minute_stands_still() {
        let standstill = Standstill::default();
        for second in [5, 10, 64] {
            standstill.note(&at(second, WAITS, UP));
            assert_eq!(standstill.found(), None, "{second}");
        }
        standstill.note(&at(65, WAITS, UP));
        assert!(standstill.found().is_some_and(|found| found.starts_with("events/0 has not been read for 60 s")));
        standstill.note(&at(70, "active", UP));
        assert_eq!(standstill.found(), None);
    }

    #[test]
    fn who_gets_an_answer_or_has_no_leader_does_not_stand_still() {
        let standstill = Standstill::default();
        for second in 0..20 {
            // Each wait is over before the next.
            standstill.note(&at(second * 10, if second % 3 == 2 { "active" } else { WAITS }, UP));
            assert_eq!(standstill.found(), None);
        }
        for second in 20..40 {
            standstill.note(&at(second * 10, WAITS, "DOWN"));
            assert_eq!(standstill.found(), None, "a new client would not be answered either");
        }
    }
}
