//! How an act of an operator gets from the command line to wherever events go: to a topic, or to a process.

use std::{collections::BTreeMap, time::Duration};

use loopwarden_core::event::{ACTOR, EventTime, RecordMeta, decode};
use loopwarden_kafka::producers::writer::Writer;
use loopwarden_settings::Config;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cli::shared::ask::{self, Answer, RunningProcess};
use crate::{cli::args::WhereArgs, exit_code, failure::Failure, operate::act::Act, server::kafka_options};

/// Longest wait for the running process.
pub(crate) const WAIT: Duration = Duration::from_secs(10);
/// Bytes that are read of its answer.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// Of an act that no process has judged in time, or that another one judges.
pub(crate) const UNJUDGED: &str = "taken, and in force once it is judged";
/// Where a process takes events.
const EVENTS: &str = "/v1/events";

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

/// Labels of an act. A process with a log of its own writes who it knows instead.
pub(crate) fn labels(actor: Option<String>) -> BTreeMap<&'static str, String> {
    actor.map(|actor| (ACTOR, actor)).into_iter().collect()
}

/// An id of an act of this command.
pub(crate) fn id(kind: &str, now: EventTime) -> String {
    format!("{kind}-{}-{}", now.0, std::process::id())
}

/// The event of an act. One that is none would become a dead letter, and nobody here would know. The error calls it `what`.
fn event(act: &Act, what: &str, config: &Config) -> Result<String, Failure> {
    let event = act.event().to_string();
    let meta = RecordMeta::without_place(act.at, config.limits.record_bytes_max);
    decode(Some(event.as_bytes()), &meta).map_err(|rejected| usage(&format!("no such {what} can be: {rejected}")))?;
    Ok(event)
}

/// Writes the event of an act to the topic of events: what became of it; none where the configuration has no Kafka.
///
/// # Errors
/// The field that is wrong; an address of a process beside Kafka; brokers.
pub(crate) fn to_topic(act: &Act, what: &str, place: &WhereArgs, config: &Config) -> Result<Option<String>, Failure> {
    let Some(kafka) = &config.kafka else { return Ok(None) };
    if place.address.is_some() {
        return Err(usage("--address is about embedded mode; with Kafka the event goes to the topic"));
    }
    let event = event(act, what, config)?;
    let writer = Writer::new(&kafka_options(config, kafka, 0)?)?;
    writer.write(&kafka.input, None, act.whom.record_key().as_bytes(), Some(event.as_bytes()))?;
    writer.flush()?;
    Ok(Some(format!("sent to {}; nobody here knows what becomes of it, a process shows it once it is judged", kafka.input)))
}

/// Sends the event of an act to wherever events go: what became of it. `look` at the running process comes before.
///
/// # Errors
/// As [`to_topic`]; the running process.
pub(crate) fn send(
    act: &Act,
    what: &str,
    place: &WhereArgs,
    config: &Config,
    look: impl FnOnce(&RunningProcess),
) -> Result<String, Failure> {
    if let Some(became) = to_topic(act, what, place, config)? {
        return Ok(became);
    }
    let event = event(act, what, config)?;
    let process = RunningProcess::of(place.address.as_deref(), config)?;
    look(&process);
    let answer = process.post(EVENTS, &event, WAIT, ANSWER_BYTES_MAX).map_err(|error| {
        let kafka = "with Kafka: --config FILE, or --set kafka.bootstrap_servers=…";
        refused(&process, EVENTS, &format!("{}\n  {kafka}", process.nobody(&error)))
    })?;
    taken(&process, EVENTS, &["202"], answer)?;
    Ok(format!("taken by {}", process.address))
}

/// The answer of a process about an act.
///
/// # Errors
/// As [`taken`]; that it does not answer, or in another form.
pub(crate) fn answered<T: DeserializeOwned>(
    process: &RunningProcess,
    path: &str,
    answer: std::io::Result<Answer>,
) -> Result<T, Failure> {
    let answer = answer.map_err(|error| refused(process, path, &process.nobody(&error)))?;
    let body = taken(process, path, &["200", "202"], answer)?;
    serde_json::from_str(&body).map_err(|error| refused(process, path, &format!("no answer to an act: {error}")))
}

/// The body of an answer of one of these codes.
///
/// # Errors
/// Any other answer, with its text. That nothing was changed is an answer, and it is no.
pub(crate) fn taken(process: &RunningProcess, path: &str, codes: &[&str], answer: Answer) -> Result<String, Failure> {
    let Answer { status, code, body } = answer;
    if codes.contains(&&*code) {
        return Ok(body);
    }
    let fields: Option<Value> = serde_json::from_str(&body).ok();
    let of = |name: &str| fields.as_ref().and_then(|fields| fields.get(name)?.as_str());
    match (of("error"), of("message")) {
        (Some(word), Some(why)) if code == "409" || word == "no_such_command" => {
            Err(Failure::new(exit_code::ANSWER_IS_NO, format!("nothing was changed: {why} ({word})")))
        }
        _ => Err(refused(process, path, &format!("answered {status:?} {}{}", body.trim(), ask::way_in(&code)))),
    }
}
