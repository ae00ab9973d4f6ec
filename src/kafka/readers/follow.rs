//! Follows the state topic from its beginning, for ever: no group, nothing is committed.
//!
//! A reader that has reached the end of a silent topic knows as much as one of a busy topic, as long as brokers answer: each
//! partition's leader is asked now and then. In a busy topic partitions are seldom at their ends all at once: each must have been there
//! within one look, or whoever has rows written all the time would make a reader look late. What is known then is what there was when the look
//! began: what came since may lie in a partition that has been at its end before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopwarden_log::LogError;
use loopwarden_log::clock::{Deadline, Stopwatch};
use rdkafka::{Message, Offset};

use crate::readers::reader::{Polled, Reader};
use crate::{client::fate, client::settings::KafkaOptions};

/// Between two questions to the leaders.
const BEAT_PAUSE: Duration = Duration::from_secs(2);
/// Wait for one answer. The records of other partitions wait as long.
const BEAT_WAIT: Duration = Duration::from_secs(1);

/// What a turn of the follower brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// A record, which the handler got.
    Record,
    /// All that was there so long ago has been handed over, and the leaders of all partitions answer.
    Current(Duration),
    Nothing,
}

/// What came.
#[derive(PartialEq, Eq)]
enum Came {
    Record,
    End,
    Nothing,
}

/// Takes key and value of a row; no value: the row is gone.
type Handler<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Reads all partitions of the state topic.
pub struct StateFollower {
    reader: Reader,
    topic: String,
    /// What it does, for messages.
    reading: String,
    /// Whether each partition was read to its end.
    at_end: BTreeMap<i32, bool>,
    beat: Deadline,
    /// The look that goes on.
    look: Option<LookAtEnds>,
}

/// Whether all partitions are at their ends.
struct LookAtEnds {
    began: Stopwatch,
    until: Deadline,
    /// Partitions whose ends were reached.
    reached: BTreeSet<i32>,
}

impl StateFollower {
    /// Begins to read.
    ///
    /// # Errors
    /// By fate: no broker, no topic, no permission.
    pub fn open(options: &KafkaOptions) -> Result<Self, LogError> {
        let reader = Reader::watched(options, "guard")?;
        let topic = options.topics.state.clone();
        let asking = format!("asking for topic \"{topic}\" on {}", options.bootstrap_servers);
        let partitions = reader.partitions(&topic, &asking)?;
        if partitions.is_empty() {
            return Err(fate::fatal(fate::E_TOPIC_MISSING, format!("{asking}: there is no such topic")));
        }
        reader.assign(&topic, partitions.iter().map(|partition| (*partition, Offset::Beginning)), &asking)?;
        let at_end = partitions.into_iter().map(|partition| (partition, false)).collect();
        let reading = format!("reading {topic}");
        Ok(Self { reader, topic, reading, at_end, beat: Deadline::after(Duration::ZERO), look: None })
    }

    /// One turn: at most one record, or a question to the leaders. A key without value is a tombstone.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`]: what was there is gone, so that reading begins anew; others by fate.
    pub fn turn(&mut self, wait: Duration, handler: &mut Handler<'_>) -> Result<Followed, LogError> {
        if let Some(found) = self.reader.context().standstill.found() {
            return Err(LogError::Transient(found));
        }
        let left = self.look.as_ref().map_or_else(|| self.beat.left(), |look| look.until.left());
        if self.take(wait.min(left), handler)? == Came::Record {
            return Ok(Followed::Record);
        }
        if !self.beat.is_over() {
            return Ok(Followed::Nothing);
        }
        let partitions = self.at_end.len();
        self.look_on();
        let Some(look) = self.look.take_if(|look| look.reached.len() == partitions) else { return Ok(Followed::Nothing) };
        let is_current = self.leaders_answer();
        self.beat = Deadline::after(BEAT_PAUSE);
        // A broker answers in order: what it had when the look began has come before its answer.
        while is_current && !self.beat.is_over() {
            if self.take(Duration::ZERO, handler)? == Came::Nothing {
                return Ok(Followed::Current(look.began.elapsed()));
            }
        }
        Ok(Followed::Nothing)
    }

    /// Takes what comes next.
    fn take(&mut self, wait: Duration, handler: &mut Handler<'_>) -> Result<Came, LogError> {
        match self.reader.poll(wait, &self.reading)? {
            Polled::Record(message) => {
                self.at_end.insert(message.partition(), false);
                handler(message.key().unwrap_or_default(), message.payload());
                Ok(Came::Record)
            }
            Polled::End(partition) => {
                self.at_end.insert(partition, true);
                self.look.iter_mut().for_each(|look| _ = look.reached.insert(partition));
                Ok(Came::End)
            }
            Polled::Nothing => Ok(Came::Nothing),
        }
    }

    /// Begins a look where none goes on, or where it took too long for what was seen first to say much about now.
    fn look_on(&mut self) {
        if self.look.as_ref().is_none_or(|look| look.until.is_over()) {
            let reached = self.at_end.iter().filter(|(_, at_end)| **at_end).map(|(partition, _)| *partition).collect();
            self.look = Some(LookAtEnds { began: Stopwatch::start(), until: Deadline::after(BEAT_PAUSE), reached });
        }
    }

    fn leaders_answer(&self) -> bool {
        let answers = |partition: &i32| self.reader.client().fetch_watermarks(&self.topic, *partition, BEAT_WAIT).is_ok();
        self.at_end.keys().all(answers)
    }
}
