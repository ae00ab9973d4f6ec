//! How late a group reads a topic, seen from outside: for readers of what it makes of its records.
//!
//! Now and then the ends of all partitions are noted. A partition is as late as the last note in which the group had read all there was.
//! Ends count control records of transactions, which a group at rest has not passed: whether there is anything to read, is looked at where
//! it seems to be late.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::LogError;
use loopwarden_log::clock::{Deadline, Stopwatch};
use rdkafka::Offset;

use crate::client::settings::KafkaOptions;
use crate::readers::reader::{Polled, Reader};

const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// So late a partition is before its records are looked at. Milliseconds.
const LOOK_MS: u64 = 4_000;
/// Notes of a partition. One each two seconds are twenty minutes; beyond them the oldest stays, so that what is late stays so.
const NOTES_MAX: usize = 600;

/// Ends of a partition, each with the last time it was seen. Milliseconds of a clock of the caller's.
#[derive(Debug, Default)]
struct Ends {
    seen: VecDeque<(i64, u64)>,
    /// Up to here there was nothing but control records.
    empty_up_to: i64,
}

impl Ends {
    fn note(&mut self, end: i64, now_ms: u64) {
        match self.seen.back_mut() {
            Some((known, seen_ms)) if *known == end => *seen_ms = now_ms,
            _ => self.seen.push_back((end, now_ms)),
        }
        if self.seen.len() > NOTES_MAX {
            self.seen.remove(1);
        }
    }

    /// How late a reader is that goes on at an offset.
    fn late_ms(&mut self, next: i64, now_ms: u64) -> u64 {
        let next = next.max(self.empty_up_to);
        while self.seen.get(1).is_some_and(|(end, _)| *end <= next) {
            self.seen.pop_front();
        }
        let is_at_end = self.seen.back().is_none_or(|(end, _)| *end <= next);
        let first = self.seen.front().filter(|_| !is_at_end);
        first.map_or(0, |(_, seen_ms)| now_ms.saturating_sub(*seen_ms))
    }
}

/// Watches the group of loopwarden on its topic of events.
pub struct Judged {
    reader: Reader,
    topic: String,
    clock: Stopwatch,
    partitions: BTreeMap<i32, Ends>,
}

impl Judged {
    /// Begins to watch. What happened before is not known.
    ///
    /// # Errors
    /// By fate: no broker, no topic, no permission.
    pub fn open(options: &KafkaOptions) -> Result<Self, LogError> {
        let reader = Reader::watched(options, "judged")?;
        let topic = options.topics.input.clone();
        let asking = format!("asking for topic \"{topic}\" on {}", options.bootstrap_servers);
        let partitions = reader.partitions(&topic, &asking)?;
        let partitions = partitions.into_iter().map(|partition| (partition, Ends::default())).collect();
        Ok(Self { reader, topic, clock: Stopwatch::start(), partitions })
    }

    /// How late the partition is that is read latest. Milliseconds.
    ///
    /// # Errors
    /// By fate: brokers do not answer, or the group may not be asked for.
    pub fn late_ms(&mut self) -> Result<u64, LogError> {
        let asking = format!("asking how far topic \"{}\" is read", self.topic);
        // Before the ends: what is written in between makes it look late, not early.
        let read = self.reader.committed(&self.topic, self.partitions.keys().copied(), limits::ASK_WAIT, &asking)?;
        let read: BTreeMap<i32, Option<u64>> = read.into_iter().collect();
        let mut late_ms = 0;
        let Self { reader, topic, clock, partitions } = self;
        for (partition, ends) in partitions.iter_mut() {
            let range = reader
                .client()
                .fetch_watermarks(topic, *partition, ANSWER_WAIT)
                .map_err(|error| reader.failed(&error, &asking))?;
            let (start, end) = range;
            let now_ms = clock.elapsed().as_millis() as u64;
            ends.note(end, now_ms);
            // A group that has read nothing yet begins somewhere, and nobody knows where.
            let next = read.get(partition).copied().flatten().map_or(end, |next| (next as i64).max(start));
            let mut found_ms = ends.late_ms(next, now_ms);
            if found_ms >= LOOK_MS && is_empty(reader, topic, *partition, next.max(ends.empty_up_to), end)? {
                ends.empty_up_to = end;
                found_ms = ends.late_ms(next, now_ms);
            }
            late_ms = late_ms.max(found_ms);
        }
        Ok(late_ms)
    }
}

/// Whether there is nothing to read from an offset to the end.
fn is_empty(reader: &Reader, topic: &str, partition: i32, from: i64, end: i64) -> Result<bool, LogError> {
    let looking = format!("looking at {topic}/{partition} from {from} to {end}");
    reader.assign(topic, [(partition, Offset::Offset(from))], &looking)?;
    let deadline = Deadline::after(ANSWER_WAIT);
    let mut is_empty = false;
    while !deadline.is_over() {
        match reader.poll(deadline.left(), &looking) {
            Ok(Polled::End(at)) if at == partition => {
                is_empty = true;
                break;
            }
            // A record: there is something to judge.
            Ok(Polled::Record(_)) => break,
            // Trouble shows itself where ends are asked for.
            Ok(Polled::End(_) | Polled::Nothing) | Err(_) => {}
        }
    }
    reader.unassign(&looking)?;
    Ok(is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_as_late_as_the_last_time_it_had_read_all() {
        let mut ends = Ends::default();
        for (end, now_ms) in [(10, 0), (10, 2_000), (20, 4_000), (30, 6_000)] {
            ends.note(end, now_ms);
        }
        assert_eq!(ends.late_ms(10, 6_000), 4_000, "at 2,000 it had");
        assert_eq!(ends.late_ms(15, 6_000), 4_000);
        assert_eq!(ends.late_ms(20, 6_000), 2_000);
        assert_eq!(ends.late_ms(30, 9_000), 0);
        ends.note(40, 10_000);
        assert_eq!(ends.late_ms(30, 12_000), 6_000, "at 6,000 it had, as far as is known");
        ends.empty_up_to = 40;
        assert_eq!(ends.late_ms(30, 12_000), 0, "nothing but control records");
    }

    #[test]
    fn a_reader_that_stands_still_gets_later_with_few_notes() {
        let mut ends = Ends::default();
        for turn in 0..10_000 {
            ends.note(turn, turn.unsigned_abs() * 2_000);
            let expected = turn.unsigned_abs() * 2_000;
            assert_eq!(ends.late_ms(0, turn.unsigned_abs() * 2_000), expected);
        }
        assert!(ends.seen.len() <= NOTES_MAX);
    }
}
