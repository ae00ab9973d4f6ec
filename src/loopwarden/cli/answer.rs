//! `answer`: what a person makes of the commands of an episode, sent to wherever events go.

use std::time::Duration;

use loopwarden_core::event::{EventTime, RecordMeta, decode};
use loopwarden_kafka::producers::writer::Writer;
use loopwarden_lab::report::plain;
use loopwarden_log::clock;
use serde_json::json;

use crate::acts::span_ms;
use crate::cli::args::{AnswerArgs, LogArgs};
use crate::cli::operate::actor;
use crate::cli::shared::ask::{Answer, RunningProcess};
use crate::cli::shared::{ask, setup};
use crate::exit_code;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::server::kafka_options;

/// Longest wait for the running process.
const WAIT: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: usize = 64 * 1_024;
const PATH: &str = "/v1/events";

/// Sends the answer.
///
/// # Errors
/// Settings, brokers, the running process.
pub(super) fn run(args: &AnswerArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let config = setup::load(&args.place.config, log)?.config;
    let event = event(args)?;
    let meta = RecordMeta::without_place(EventTime(clock::now_ms()), config.limits.record_bytes_max);
    // What is no event would become a dead letter, and nobody here would know.
    decode(Some(event.as_bytes()), &meta).map_err(|rejected| usage(&format!("no such answer can be: {rejected}")))?;
    let episode = plain(&args.episode);
    match &config.kafka {
        Some(_) if args.place.address.is_some() => {
            Err(usage("--address is about embedded mode; with Kafka the event goes to the topic"))
        }
        Some(kafka) => {
            let writer = Writer::new(&kafka_options(&config, kafka, 0)?)?;
            writer.write(&kafka.input, None, args.session.as_bytes(), Some(event.as_bytes()))?;
            writer.flush()?;
            output::line(&format!("answer to episode {episode}: sent to {}", kafka.input))
        }
        None => {
            let process = RunningProcess::of(args.place.address.as_deref(), &config)?;
            let fail =
                |cause: String| Failure::new(exit_code::FAILED, format!("error: http://{}{PATH}: {cause}", process.address));
            let answer = process.post(PATH, &event, WAIT, ANSWER_BYTES_MAX);
            let Answer { status, code, body } = answer.map_err(|error| fail(process.nobody(&error)))?;
            if code != "202" {
                return Err(fail(format!("answered {status:?} {}{}", body.trim(), ask::way_in(&code))));
            }
            output::line(&format!("answer to episode {episode}: taken by {}", process.address))
        }
    }
}

fn usage(message: &str) -> Failure {
    Failure::new(exit_code::USAGE, format!("error: {message}"))
}

fn event(args: &AnswerArgs) -> Result<String, Failure> {
    let now = EventTime(clock::now_ms());
    let (answer, until) = match &args.span {
        Some(span) => {
            let span_ms =
                span_ms(span).ok_or_else(|| usage(&format!("--allow {span:?} is no span: as 90s, 30m, 2h, at most 7d")))?;
            ("allow", Some(now.plus_ms(span_ms).to_rfc3339()))
        }
        None if args.right => ("right", None),
        None => ("false_alarm", None),
    };
    let event = json!({
        "id": format!("answer-{}-{}", now.0, std::process::id()),
        "kind": "answer",
        "time": now.to_rfc3339(),
        "tenant": args.tenant,
        "session_id": args.session,
        "agent": args.agent.as_ref().map(|agent| json!({ "id": agent })),
        "episode": args.episode,
        "answer": answer,
        "until": until,
        // A process with a log of its own writes who it knows instead.
        "labels": actor().map(|actor| json!({ "actor": actor })),
    });
    Ok(event.to_string())
}
