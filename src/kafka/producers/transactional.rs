//! The transactional producer of a lane: one commit is begin, send, offsets, drain, commit (page `commit`).

use std::collections::{BTreeMap, BTreeSet};
use std::{thread, time::Duration};

use loopwarden_core::{event::TaskId, limits};
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::{CommitOutcome, CommitSteps, Destination, LogError, Output};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::{TopicPartitionList, consumer::ConsumerGroupMetadata};

use crate::client::context::{LaneContext, Ticket};
use crate::client::{closing::Bounded, fate, identity, settings};
use crate::{client::settings::KafkaOptions, topics::Topics};

/// What a commit came to.
pub(crate) struct Ended {
    pub(crate) outcome: CommitOutcome,
    /// What this identity must not do, if that is why.
    pub(crate) denied: Option<LogError>,
}

pub(crate) struct LaneProducer {
    producer: Bounded<ThreadedProducer<LaneContext>>,
    commits: u32,
}

impl LaneProducer {
    /// Builds the client; talks to nobody yet.
    pub(crate) fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        let context = LaneContext::new(options.security.tokens.clone());
        let producer = Bounded::make(&settings::producer(options), context, "making the producer")?;
        Ok(Self { producer, commits: 0 })
    }

    /// One slice of `init_transactions`: whether it is done. When it is, the former transaction of this identity is finished and
    /// its epoch fenced.
    pub(crate) fn init(&self, slice: Duration) -> Result<bool, LogError> {
        match self.producer.init_transactions(slice) {
            Ok(()) => Ok(true),
            Err(error) if self.is_fatal(&error) => Err(fate::of(&error, "taking over the transactional id")),
            Err(error) if identity::of_refused(self.producer.context().tokens(), &error, "").is_some() => Ok(false),
            Err(error) => match fate::of(&error, "taking over the transactional id") {
                LogError::Transient(_) => Ok(false),
                other => Err(other),
            },
        }
    }

    /// The client, for questions about topics.
    pub(crate) fn client(&self) -> &rdkafka::client::Client<LaneContext> {
        self.producer.client()
    }

    fn is_fatal(&self, error: &KafkaError) -> bool {
        matches!(error, KafkaError::Transaction(inner) if inner.is_fatal()) || self.producer.client().fatal_error().is_some()
    }

    /// Whether a request may be under way that nobody waits for any more: a new epoch must fence it (rule C17). To be asked right before
    /// the next transaction: the client tells of it on a thread of its own, maybe after the commit has ended.
    pub(crate) fn is_broken(&self) -> bool {
        self.producer.context().broken()
    }

    /// Steps S2 to S6.
    pub(crate) fn commit(
        &mut self,
        staged: &[Output],
        topics: &Topics,
        offsets: &TopicPartitionList,
        membership: Option<&ConsumerGroupMetadata>,
        steps: &mut CommitSteps,
    ) -> Ended {
        *steps = CommitSteps::default();
        let outcome = self.run(staged, topics, offsets, membership, steps);
        let context = self.producer.context();
        let Some(said) = context.take_denied().filter(|_| !matches!(outcome, CommitOutcome::Committed { .. })) else {
            return Ended { outcome, denied: None };
        };
        // Where the very first topic is denied there is nothing to abort, which the client takes for the end of its identity.
        let outcome = match outcome {
            CommitOutcome::Fenced { cause } => aborted(cause, true),
            other => other,
        };
        let message = format!("committing: {said}");
        Ended { outcome, denied: Some(fate::fatal(fate::E_NOT_AUTHORISED, message)) }
    }

    fn run(
        &mut self,
        staged: &[Output],
        topics: &Topics,
        offsets: &TopicPartitionList,
        membership: Option<&ConsumerGroupMetadata>,
        steps: &mut CommitSteps,
    ) -> CommitOutcome {
        let mut watch = Stopwatch::start();
        // Wraps after 32,768 commits: no report is that late.
        self.commits = (self.commits + 1) & 0x7fff;
        let slots = changelog_slots(staged);
        let context = std::sync::Arc::clone(self.producer.context());
        context.begin(self.commits, slots.len());
        if let Err(error) = self.producer.begin_transaction() {
            return if self.is_fatal(&error) { fenced("begin", &error) } else { aborted(format!("begin: {error}"), true) };
        }

        let sent = self.send(staged, topics, &slots);
        steps.send_us = watch.lap_us();
        if let Err((error, destination)) = sent {
            return self.abort(format!("sending to {destination:?}: {error}"), false, &error);
        }

        // While the records are on their way: the two paths share only the first of their requests.
        let offered = self.offer(offsets, membership);
        steps.offsets_us = watch.lap_us();
        if let Err(outcome) = offered {
            return outcome;
        }

        let drained = self.drain(staged.len());
        steps.drain_us = watch.lap_us();
        if let Err(error) = drained {
            return self.abort(format!("delivery: {error}"), false, &error);
        }

        let committed = self.producer.commit_transaction(limits::COMMIT_WAIT);
        steps.commit_us = watch.lap_us();
        match committed {
            Ok(()) => CommitOutcome::Committed { changelog_next: next_of(&slots, &context.largest()) },
            Err(error) if self.is_fatal(&error) => fenced("commit", &error),
            Err(error) => CommitOutcome::Unknown { cause: format!("commit: {error}") },
        }
    }

    /// Offsets and membership into the transaction: from here a member that takes over waits for the end of it.
    fn offer(&self, offsets: &TopicPartitionList, membership: Option<&ConsumerGroupMetadata>) -> Result<(), CommitOutcome> {
        let Some(membership) = membership else {
            return Err(self.abort("the consumer has no group".into(), false, &KafkaError::Canceled));
        };
        let Err(error) = self.producer.send_offsets_to_transaction(offsets, membership, limits::OFFSETS_WAIT) else {
            return Ok(());
        };
        let context = self.producer.context();
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => context.deny(&error.to_string(), "Read on that topic"),
            Some(RDKafkaErrorCode::GroupAuthorizationFailed) => context.deny(&error.to_string(), "Read on the group"),
            _ => {}
        }
        let timed_out =
            matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::RequestTimedOut));
        Err(self.abort(format!("offsets: {error}"), timed_out, &error))
    }

    fn send(&self, staged: &[Output], topics: &Topics, slots: &BTreeMap<TaskId, u32>) -> Result<(), (KafkaError, Destination)> {
        for ((topic, partition), output) in firsts_first(staged.iter().map(|output| (topics.place(output), output))) {
            let slot = match output.destination {
                Destination::Changelog(task) => slots.get(&task).copied().unwrap_or(0),
                _ => 0,
            };
            let record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord {
                topic,
                partition,
                payload: output.value.as_deref(),
                key: Some(&output.key),
                // 0 would mean now to the client, and brokers refuse what is below: neither comes from a sane record.
                timestamp: Some(output.timestamp_ms.max(1)),
                headers: headers(output),
                delivery_opaque: Ticket { commit: self.commits, slot }.to_opaque(),
            };
            self.producer.send(record).map_err(|(error, _)| (error, output.destination))?;
        }
        Ok(())
    }

    /// Waits until every record is acknowledged and the client has freed it: a commit with anything in flight waits 100 ms.
    fn drain(&self, sent: usize) -> Result<(), KafkaError> {
        let context = self.producer.context();
        context.expect(sent);
        let deadline = Deadline::after(limits::DRAIN_WAIT);
        while context.reported() < sent || self.producer.in_flight_count() > 0 {
            if context.failed() {
                return Err(context.first_error().unwrap_or(KafkaError::Canceled));
            }
            if deadline.is_over() {
                return Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
            }
            // The last report unparks; the client frees its event a moment later.
            let wait = if context.reported() < sent { 1_000 } else { 50 };
            thread::park_timeout(Duration::from_micros(wait));
        }
        if context.failed() { Err(context.first_error().unwrap_or(KafkaError::Canceled)) } else { Ok(()) }
    }

    fn abort(&self, cause: String, suspect: bool, error: &KafkaError) -> CommitOutcome {
        if self.is_fatal(error) {
            return CommitOutcome::Fenced { cause };
        }
        match self.producer.abort_transaction(limits::ABORT_WAIT) {
            Ok(()) => aborted(cause, suspect),
            Err(error) if self.is_fatal(&error) => fenced(&cause, &error),
            Err(error) => aborted(format!("{cause}; abort: {error}"), true),
        }
    }
}

/// A topic and a partition of it; without one, the client chooses by the key.
type Destined<'a> = (&'a str, Option<i32>);

/// The first record of each partition, then all others, each in order. The client asks the coordinator for the partitions it has met
/// when the first record comes, and when the answer is there for all it has met meanwhile. Met at once, they are one question: a round
/// trip less.
fn firsts_first<'a, T>(staged: impl Iterator<Item = (Destined<'a>, T)>) -> Vec<(Destined<'a>, T)> {
    let mut met = BTreeSet::new();
    // By partition first: names begin alike, and are longer.
    let (mut records, others): (Vec<_>, Vec<_>) = staged.partition(|((topic, partition), _)| met.insert((*partition, *topic)));
    records.extend(others);
    records
}

fn headers(output: &Output) -> Option<OwnedHeaders> {
    if output.headers.is_empty() {
        return None;
    }
    let mut headers = OwnedHeaders::new_with_capacity(output.headers.len());
    for (key, value) in output.headers.iter() {
        headers = headers.insert(Header { key, value: Some(value) });
    }
    Some(headers)
}

/// A number from 1 for each task whose changelog is written.
fn changelog_slots(staged: &[Output]) -> BTreeMap<TaskId, u32> {
    let mut slots = BTreeMap::new();
    for output in staged {
        if let Destination::Changelog(task) = output.destination {
            let next = slots.len() as u32 + 1;
            slots.entry(task).or_insert(next);
        }
    }
    slots
}

fn next_of(slots: &BTreeMap<TaskId, u32>, largest: &[Option<u64>]) -> Vec<(TaskId, u64)> {
    slots
        .iter()
        .filter_map(|(task, slot)| {
            let offset = (*largest.get(*slot as usize - 1)?)?;
            Some((*task, offset + 1))
        })
        .collect()
}

fn aborted(cause: String, reopen: bool) -> CommitOutcome {
    CommitOutcome::Aborted { cause, reopen }
}

fn fenced(doing: &str, error: &KafkaError) -> CommitOutcome {
    CommitOutcome::Fenced { cause: format!("{doing}: {error}") }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_log::Headers;

    use super::*;

    #[test]
    fn each_partition_is_met_before_any_of_them_again_and_keeps_its_order() {
        let staged = [("a", Some(0)), ("a", Some(0)), ("a", Some(1)), ("b", None), ("a", Some(1)), ("b", Some(0)), ("b", None)];
        let numbers: Vec<i32> = firsts_first(staged.into_iter().zip(0..)).into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [0, 2, 3, 5, 1, 4, 6]);
    }

    #[test]
    fn changelogs_get_slots_and_other_topics_none() {
        let task = |partition| TaskId { stage: Stage::Session, partition };
        let output = |destination| Output { destination, key: vec![], value: None, headers: Headers::default(), timestamp_ms: 1 };
        let staged = [
            output(Destination::Commands),
            output(Destination::Changelog(task(4))),
            output(Destination::Changelog(task(2))),
            output(Destination::Changelog(task(4))),
        ];
        let slots = changelog_slots(&staged);
        assert_eq!(slots, BTreeMap::from([(task(4), 1), (task(2), 2)]));
        assert_eq!(next_of(&slots, &[Some(10), Some(20)]), vec![(task(2), 21), (task(4), 11)]);
    }
}
