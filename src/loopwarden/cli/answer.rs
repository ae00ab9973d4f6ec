//! `answer`: what a person makes of the commands of an episode, sent to wherever events go.

use loopwarden_core::event::{EventTime, Judged};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_lab::report::plain;
use loopwarden_log::clock;
use serde_json::json;

use crate::cli::args::{AnswerArgs, LogArgs};
use crate::cli::shared::{act, act::usage, ask::RunningProcess, setup};
use crate::failure::Outcome;
use crate::operate::act::{Act, Does, span_ms};
use crate::{operate::api, output};

const PATH: &str = "/v1/answers";

/// Sends the answer.
///
/// # Errors
/// Settings, brokers, the running process.
pub(super) fn run(args: &AnswerArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let config = setup::load(&args.place.config, log)?.config;
    let now = EventTime(clock::now_ms());
    let judged = match &args.span {
        Some(span) => {
            let why = || usage(&format!("--allow {span:?} is no span: as 90s, 30m, 2h, at most 7d"));
            Judged::Allowed(now.plus_ms(span_ms(span).ok_or_else(why)?))
        }
        None if args.right => Judged::Right,
        None => Judged::FalseAlarm,
    };
    let AnswerArgs { episode, session, agent, tenant, place, .. } = args;
    let act = Act {
        id: act::id("answer", now),
        at: now,
        reason: None,
        labels: act::labels(act::actor()),
        whom: Whom::new(tenant.as_deref().unwrap_or_default(), Kind::Session, session),
        agent_id: agent.clone(),
        does: Does::Answer { episode: episode.clone(), judged },
    };
    let message = |became: &str| format!("answer to episode {}: {became}", plain(episode));
    if let Some(became) = act::to_topic(&act, "answer", place, &config)? {
        return output::line(&message(&became));
    }
    let body = json!({
        "session_id": session, "agent_id": agent, "tenant": tenant, "episode": episode, "answer": judged.as_str(), "for": args.span,
    });
    let process = RunningProcess::of(place.address.as_deref(), &config)?;
    let answer = process.post(PATH, &body.to_string(), act::WAIT, act::ANSWER_BYTES_MAX);
    let taken: api::TakenAnswer = act::answered(&process, PATH, answer)?;
    output::line(&message(if taken.judged { "in force" } else { act::UNJUDGED }))
}
