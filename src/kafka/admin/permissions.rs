//! Which permissions this identity lacks, found by trying. Nothing is written and no group is joined.

use std::{collections::BTreeMap, time::Duration};

use loopwarden_core::{event::Stage, limits};
use loopwarden_log::{LogError, clock::Deadline};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use crate::client::{fate, settings};
use crate::{
    client::settings::KafkaOptions, producers::transactional::LaneProducer, producers::writer::Writer, readers::reader::Reader,
};

/// One wait of a read.
const TURN: Duration = Duration::from_millis(100);

/// A permission that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The topic it is about, if it is about one.
    pub topic: Option<String>,
    /// What was tried, what the broker said, which permission it is.
    pub message: String,
}

/// The permissions that are missing, of the lanes, of what reads `inputs` and of `webhooks`, by their names. `unknown` are topics that do not exist, `hidden` those of which
/// brokers say nothing: there everything is missing.
///
/// # Errors
/// A setting librdkafka refuses.
pub fn missing(
    options: &KafkaOptions,
    (inputs, webhooks): (&[String], &[&str]),
    unknown: &[String],
    hidden: &[String],
) -> Result<Vec<Missing>, LogError> {
    let mut found = Vec::new();
    let mut reads: Vec<String> =
        options.stages().iter().flat_map(|stage| [options.input_topic(*stage), options.changelog_topic(*stage)]).collect();
    let mut writes = vec![options.topics.commands.clone(), options.topics.state.clone(), options.topics.dead_letters.clone()];
    writes.extend(options.stages().iter().map(|stage| options.changelog_topic(*stage)));
    writes.extend(options.swarm.then(|| options.input_topic(Stage::Swarm)));
    // What is read from elsewhere becomes events.
    writes.extend((!inputs.is_empty()).then(|| options.topics.input.clone()));
    let refused = KafkaError::Global(RDKafkaErrorCode::TopicAuthorizationFailed);
    let commands = (!webhooks.is_empty()).then(|| options.topics.commands.clone());
    for topic in reads.iter().chain(inputs).chain(&commands).filter(|topic| hidden.contains(topic)) {
        note(Err(denied_read(topic, &refused)), Some(topic), &mut found);
    }
    for topic in writes.iter().filter(|topic| hidden.contains(topic)) {
        note(Err(denied_write(topic, &refused)), Some(topic), &mut found);
    }
    let is_seen = |topic: &String| !unknown.contains(topic) && !hidden.contains(topic);
    reads.retain(is_seen);
    writes.retain(is_seen);
    try_group(options, &reads, &mut found)?;
    note(take_identity(options), None, &mut found);
    for topic in inputs {
        let options = options.of_intake(topic);
        try_group(&options, Some(topic.clone()).filter(is_seen).as_slice(), &mut found)?;
        note(take_identity(&options), None, &mut found);
    }
    for name in webhooks {
        try_group(&options.of_webhook(name), commands.clone().filter(is_seen).as_slice(), &mut found)?;
    }
    for (topic, error) in refused_writes(options, &writes)? {
        note(Err(denied_write(&topic, &error)), Some(&topic), &mut found);
    }
    Ok(found)
}

/// What the members of a group read, but for joining it.
fn try_group(options: &KafkaOptions, reads: &[String], found: &mut Vec<Missing>) -> Result<(), LogError> {
    let reader = Reader::open(options, "permissions")?;
    let mut is_group_denied = false;
    for topic in reads {
        note(read(&reader, topic, &mut is_group_denied), Some(topic), found);
    }
    note(ask_group(&reader, options, is_group_denied), None, found);
    Ok(())
}

fn denied_read(topic: &str, error: &KafkaError) -> LogError {
    fate::missing_permission(&format!("reading {topic}"), error, "Read on the topic")
}

fn denied_write(topic: &str, error: &KafkaError) -> LogError {
    fate::missing_permission(&format!("writing to {topic}"), error, "Write on the topic")
}

fn note(tried: Result<(), LogError>, topic: Option<&str>, found: &mut Vec<Missing>) {
    if let Err(LogError::Fatal { code: fate::E_NOT_AUTHORISED, message }) = tried {
        found.push(Missing { topic: topic.map(str::to_owned), message });
    }
}

/// Whether a poll brought the refusal of the group. The client looks for the group by itself and says it once, among whatever it is
/// polled for; who then asks for the group only waits.
fn refuses_group(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::GroupAuthorizationFailed)
}

/// Reads at the end of a partition, where there is nothing.
fn read(reader: &Reader, topic: &str, is_group_denied: &mut bool) -> Result<(), LogError> {
    let reading = format!("reading {topic}");
    reader.assign(topic, [(0, Offset::End)], &reading)?;
    let deadline = Deadline::after(limits::ASK_WAIT);
    let mut answer = Ok(());
    while !deadline.is_over() {
        match reader.consumer().poll(TURN) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => break,
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                answer = Err(denied_read(topic, &error));
                break;
            }
            // What else there is goes away, or time is up.
            Some(Err(error)) => *is_group_denied |= refuses_group(&error),
            None => {}
        }
    }
    reader.unassign(&reading)?;
    answer
}

/// Asks for the group's offset of one partition.
fn ask_group(reader: &Reader, options: &KafkaOptions, is_denied: bool) -> Result<(), LogError> {
    let asking = format!("asking for the offsets of group \"{}\"", options.app);
    let denied = KafkaError::Global(RDKafkaErrorCode::GroupAuthorizationFailed);
    let missing = || Err(fate::missing_permission(&asking, &denied, "Read on the group"));
    if is_denied {
        return missing();
    }
    let mut list = TopicPartitionList::new();
    list.add_partition(&options.topics.input, 0);
    let Err(error) = reader.consumer().committed_offsets(list, limits::ASK_WAIT) else { return Ok(()) };
    let is_denied =
        std::iter::from_fn(|| reader.consumer().poll(TURN)).any(|polled| polled.is_err_and(|error| refuses_group(&error)));
    if is_denied { missing() } else { Err(fate::of(&error, &asking)) }
}

/// The topics that this identity may not write to, with the broker's words; one that does not answer in time is not among them. Nothing is
/// written: the records ask for two acknowledgements, which no broker gives. Brokers look at the permission first, and then refuse the
/// number (`INVALID_REQUIRED_ACKS`) before anything is appended.
fn refused_writes(options: &KafkaOptions, topics: &[String]) -> Result<BTreeMap<String, KafkaError>, LogError> {
    let writer = Writer::of(&settings::write_probe(options), options)?;
    for topic in topics {
        // A broker that took it after all would have a tombstone of a key that nothing else has.
        writer.write(topic, Some(0), b"loopwarden-check", None)?;
    }
    writer.settle(limits::ASK_WAIT);
    let mut refused = writer.refused();
    refused.retain(|_, error| error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed));
    Ok(refused)
}

/// Takes a transactional id of this group that no lane has.
fn take_identity(options: &KafkaOptions) -> Result<(), LogError> {
    let nobody = KafkaOptions { instance: format!("{}-check", options.instance), ..options.clone() };
    let taking = format!("taking the transactional id \"{}\"", nobody.transactional_id());
    LaneProducer::new(&nobody)?.init(limits::ASK_WAIT).map(drop).map_err(|error| match error {
        LogError::Fatal { code, message } => LogError::Fatal { code, message: format!("{taking}: {message}") },
        other => other,
    })
}
