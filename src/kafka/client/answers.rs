//! Whether the brokers that a consumer has asked something answer it, as its statistics tell. Nobody is asked for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use rdkafka::Statistics;

/// A broker that takes requests.
const UP: &str = "UP";
/// A broker that stands for the coordinator of the group: it may take minutes to answer who joins.
const LOGICAL: &str = "logical";
/// Partitions that nobody reads.
const UNREAD: [&str; 3] = ["none", "stopping", "stopped"];
/// Longest silence of a broker. Microseconds: it answers a fetch within `fetch.wait.max.ms`. With the statistics of every two seconds it is
/// known within ten that nobody answers.
const SILENCE_US_MAX: i64 = 5_000_000;

/// What the statistics have said so far.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Brokers>);

#[derive(Debug, Default)]
struct Brokers {
    brokers: BTreeMap<String, Last>,
    /// Of the broker that has owed an answer for longest.
    silent_us: i64,
}

/// A broker as of the last statistics. Its own idle time begins anew with each connection, also with one to a broker that is frozen.
#[derive(Debug)]
struct Last {
    answers: u64,
    /// By the client's monotonic clock.
    at_us: i64,
    /// How long it has owed the next one.
    owed_us: i64,
}

impl Answers {
    /// Takes the statistics of one moment.
    pub(crate) fn note(&self, statistics: &Statistics) {
        let partitions = statistics.topics.values().flat_map(|topic| topic.partitions.values());
        let read = partitions.filter(|partition| !UNREAD.contains(&partition.fetch_state.as_str()));
        let leaders: BTreeSet<i32> = read.map(|partition| partition.leader).collect();
        // Then each is tried, also where nothing is read any more, and a connection that is refused is an answer that is owed.
        let is_cut_off = statistics.brokers.values().all(|broker| broker.state != UP);
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut heard.brokers);
        heard.silent_us = 0;
        for (name, broker) in &statistics.brokers {
            let (is_up, is_known) = (broker.state == UP, broker.nodeid >= 0 && broker.source != LOGICAL);
            let is_asked = broker.waitresp_cnt > 0 || (!is_up && leaders.contains(&broker.nodeid));
            let owes = is_cut_off || (is_known && is_asked);
            // One that is connected and asked nothing, as while a lane takes no more, owes nothing. One between two tries may.
            let last = before.get(name).filter(|last| last.answers == broker.rx && (owes || !is_up));
            let owed_us = last.map_or(0, |last| last.owed_us + if owes { statistics.ts.saturating_sub(last.at_us) } else { 0 });
            if owes {
                heard.silent_us = heard.silent_us.max(owed_us);
            }
            heard.brokers.insert(name.clone(), Last { answers: broker.rx, at_us: statistics.ts, owed_us });
        }
    }

    /// How long a broker has not answered, where that is too long. Milliseconds.
    pub(crate) fn silent_ms(&self) -> Option<u64> {
        let silent_us = self.0.lock().unwrap_or_else(PoisonError::into_inner).silent_us;
        (silent_us >= SILENCE_US_MAX).then(|| silent_us.unsigned_abs() / 1_000)
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::statistics::{Broker, Partition, Topic};

    use super::*;

    /// A broker in this state, with so many requests unanswered and so many answers given.
    fn broker(state: &str, waitresp_cnt: i64, rx: u64) -> Broker {
        Broker { nodeid: 1, state: state.to_owned(), waitresp_cnt, rx, ..Broker::default() }
    }

    /// What is silence from a moment on at which a broker leads a partition in this state.
    fn silence(answers: &Answers, seconds: i64, fetch_state: &str, broker: Broker) -> Option<u64> {
        let partition = Partition { leader: 1, fetch_state: fetch_state.to_owned(), ..Partition::default() };
        let topic = Topic { partitions: [(0, partition)].into_iter().collect(), ..Topic::default() };
        answers.note(&Statistics {
            ts: seconds * 1_000_000,
            topics: [("events".to_owned(), topic)].into_iter().collect(),
            brokers: [("b:1/1".to_owned(), broker)].into_iter().collect(),
            ..Statistics::default()
        });
        answers.silent_ms()
    }

    #[test]
    fn a_broker_that_owes_an_answer_for_five_seconds_is_silent_until_it_answers() {
        let answers = Answers::default();
        let silence = |seconds, broker| silence(&answers, seconds, "active", broker);
        assert_eq!((silence(5, broker(UP, 1, 7)), silence(9, broker(UP, 1, 7))), (None, None), "a pause of its collector");
        assert_eq!(silence(10, broker(UP, 1, 7)), Some(5_000));
        assert_eq!(silence(20, broker("APIVERSION_QUERY", 1, 7)), Some(15_000), "a new connection is no answer");
        assert_eq!(silence(25, broker(UP, 1, 8)), None);
        assert_eq!((silence(26, broker("DOWN", 0, 8)), silence(31, broker("DOWN", 0, 8))), (None, Some(6_000)));
    }

    #[test]
    fn a_frozen_broker_that_nothing_is_read_from_any_more_is_silent_while_it_is_asked() {
        let answers = Answers::default();
        let silence = |seconds, state, waits| silence(&answers, seconds, "stopped", broker(state, waits, 7));
        assert_eq!((silence(0, UP, 1), silence(4, UP, 1), silence(8, "DOWN", 0)), (None, None, Some(8_000)));
        assert_eq!(silence(12, "APIVERSION_QUERY", 1), Some(12_000));
    }

    #[test]
    fn brokers_that_refuse_every_connection_owe_an_answer_also_where_nothing_is_read() {
        let answers = Answers::default();
        let silent = |seconds, state| silence(&answers, seconds, "none", broker(state, 0, 7));
        assert_eq!((silent(0, UP), silent(2, "DOWN"), silent(6, "TRY_CONNECT")), (None, None, Some(6_000)));
        assert_eq!(
            (silent(8, UP), silent(10, "DOWN"), silent(12, "CONNECT")),
            (None, None, None),
            "the time counts from the last answer"
        );
        // A client that has just begun knows only what it was given.
        let given = |seconds| {
            let broker = Broker { nodeid: -1, source: "configured".to_owned(), ..broker("CONNECT", 0, 0) };
            silence(&answers, seconds, "none", broker)
        };
        assert_eq!((given(20), given(24), given(26)), (None, None, Some(6_000)));
    }

    #[test]
    fn who_is_asked_nothing_or_joins_a_group_is_not_silent() {
        let answers = Answers::default();
        for at in 0..20 {
            assert_eq!(silence(&answers, at * 5, "active", broker(UP, 0, 7)), None, "nothing was asked");
        }
        let coordinator = || Broker { source: LOGICAL.to_owned(), ..broker(UP, 1, 7) };
        for at in 20..40 {
            let idle = [("b:1/1".to_owned(), broker("INIT", 0, 7)), ("coordinator".to_owned(), coordinator())];
            answers.note(&Statistics { ts: at * 5_000_000, brokers: idle.into_iter().collect(), ..Statistics::default() });
            assert_eq!(answers.silent_ms(), None, "nobody reads from it");
        }
        for at in 40..60 {
            assert_eq!(silence(&answers, at * 5, "active", coordinator()), None);
        }
    }
}
