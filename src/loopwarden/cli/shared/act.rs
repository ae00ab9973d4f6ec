//! How an act of an operator gets from the command line to wherever events go: to a topic, or to a process.

use std::time::Duration;

use loopwarden_core::event::{EventTime, RecordMeta, decode};
use loopwarden_kafka::producers::writer::Writer;
use loopwarden_log::clock;
use loopwarden_settings::Config;

use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::ask, exit_code, server::kafka_options};

/// Longest wait for the running process.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// Bytes that are read of its answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// Where a process takes events.
pub(crate) const EVENTS: &str = "/v1/events";

/// A mistake in what was typed.
pub(crate) fn usage(message: &str) -> Failure {
    Failure::new(exit_code::USAGE, format!("error: {message}"))
}

/// The process did not take it.
pub(crate) fn refused(process: &RunningProcess, path: &str, cause: &str) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: http://{}{path}: {cause}", process.address))
}

/// The user at work, as the environment has it.
pub(crate) fn user() -> Option<String> {
    ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
}

/// The user at work, and where.
pub(crate) fn actor() -> Option<String> {
    let user = user()?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    Some(if host.is_empty() { user } else { format!("{user}@{host}") })
}

/// Refuses what is no event: it would become a dead letter, and nobody here would know. The error calls it `what`.
///
/// # Errors
/// The field that is wrong.
pub(crate) fn expect_sound(event: &str, what: &str, config: &Config) -> Outcome {
    let meta = RecordMeta::without_place(EventTime(clock::now_ms()), config.limits.record_bytes_max);
    let sound = decode(Some(event.as_bytes()), &meta);
    sound.map(|_| ()).map_err(|rejected| usage(&format!("no such {what} can be: {rejected}")))
}

/// Writes an event to the topic of events: what became of it; none where the configuration has no Kafka.
///
/// # Errors
/// An address of a process beside Kafka; settings and brokers.
pub(crate) fn to_topic(config: &Config, address: Option<&str>, key: &str, event: &str) -> Result<Option<String>, Failure> {
    let Some(kafka) = &config.kafka else { return Ok(None) };
    if address.is_some() {
        return Err(usage("--address is about embedded mode; with Kafka the event goes to the topic"));
    }
    let writer = Writer::new(&kafka_options(config, kafka, 0)?)?;
    writer.write(&kafka.input, None, key.as_bytes(), Some(event.as_bytes()))?;
    writer.flush()?;
    Ok(Some(format!("sent to {}", kafka.input)))
}

/// The body of an answer of one of these codes.
///
/// # Errors
/// Any other answer, with what it says.
pub(crate) fn taken(process: &RunningProcess, path: &str, codes: &[&str], answer: Answer) -> Result<String, Failure> {
    let Answer { status, code, body } = answer;
    if codes.contains(&&*code) {
        return Ok(body);
    }
    Err(refused(process, path, &format!("answered {status:?} {}{}", body.trim(), ask::way_in(&code))))
}
