//! Which permissions this identity lacks, found by trying. Nothing is written and no group is joined, so `Write` on topics is not tried.

use std::time::Duration;

use loopwarden_core::limits;
use loopwarden_log::LogError;
use loopwarden_log::clock::Deadline;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use crate::context::PlainContext;
use crate::producer::LaneProducer;
use crate::settings::KafkaOptions;
use crate::{changelog, fate};

/// One wait of a read.
const TURN: Duration = Duration::from_millis(100);

/// The permissions that are missing, one message each. `unknown` are topics that cannot be read for another reason.
///
/// # Errors
/// A setting librdkafka refuses.
pub fn missing(options: &KafkaOptions, unknown: &[&str]) -> Result<Vec<String>, LogError> {
    let mut found = Vec::new();
    let reader = changelog::make(options, "permissions")?;
    let mut is_group_denied = false;
    let mut note = |tried: Result<(), LogError>| {
        if let Err(LogError::Fatal { code: fate::E_NOT_AUTHORISED, message }) = tried {
            found.push(message);
        }
    };
    for stage in options.stages() {
        for topic in [options.input_topic(*stage), options.changelog_topic(*stage)] {
            if !unknown.contains(&topic.as_str()) {
                note(read(&reader, &topic, &mut is_group_denied));
            }
        }
    }
    note(ask_group(&reader, options, is_group_denied));
    note(take_identity(options));
    Ok(found)
}

/// Whether a poll brought the refusal of the group. The client looks for the group by itself and says it once, among whatever it is
/// polled for; who then asks for the group only waits.
fn refuses_group(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::GroupAuthorizationFailed)
}

/// Reads at the end of a partition, where there is nothing.
fn read(reader: &BaseConsumer<PlainContext>, topic: &str, is_group_denied: &mut bool) -> Result<(), LogError> {
    let reading = format!("reading {topic}");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::End)
        .and_then(|()| reader.assign(&list))
        .map_err(|error| fate::of(&error, &reading))?;
    let deadline = Deadline::after(limits::ASK_WAIT);
    let mut answer = Ok(());
    while !deadline.is_over() {
        match reader.poll(TURN) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => break,
            Some(Err(error)) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                answer = Err(fate::missing_permission(&reading, &error, "Read on the topic"));
                break;
            }
            // What else there is goes away, or time is up.
            Some(Err(error)) => *is_group_denied |= refuses_group(&error),
            None => {}
        }
    }
    reader.unassign().map_err(|error| fate::of(&error, &reading))?;
    answer
}

/// Asks for the group's offset of one partition.
fn ask_group(reader: &BaseConsumer<PlainContext>, options: &KafkaOptions, is_denied: bool) -> Result<(), LogError> {
    let asking = format!("asking for the offsets of group \"{}\"", options.app);
    let denied = KafkaError::Global(RDKafkaErrorCode::GroupAuthorizationFailed);
    let missing = || Err(fate::missing_permission(&asking, &denied, "Read on the group"));
    if is_denied {
        return missing();
    }
    let mut list = TopicPartitionList::new();
    list.add_partition(&options.topics.input, 0);
    let Err(error) = reader.committed_offsets(list, limits::ASK_WAIT) else { return Ok(()) };
    let is_denied = std::iter::from_fn(|| reader.poll(TURN)).any(|polled| polled.is_err_and(|error| refuses_group(&error)));
    if is_denied { missing() } else { Err(fate::of(&error, &asking)) }
}

/// Takes a transactional id of this group that no lane has.
fn take_identity(options: &KafkaOptions) -> Result<(), LogError> {
    let nobody = KafkaOptions { instance: format!("{}-check", options.instance), ..options.clone() };
    LaneProducer::new(&nobody)?.init(limits::ASK_WAIT).map(drop)
}
