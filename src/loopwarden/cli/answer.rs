//! `answer`: what a person makes of the commands of an episode, sent to wherever events go.

use loopwarden_core::event::{EventTime, Judged};
use loopwarden_lab::report::plain;
use loopwarden_log::clock;

use crate::acts::{Act, LoopAddress, span_ms};
use crate::cli::args::{AnswerArgs, LogArgs};
use crate::cli::shared::act::{EVENTS, actor, usage};
use crate::cli::shared::{act, setup};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::ask::RunningProcess, output};

/// Sends the answer.
///
/// # Errors
/// Settings, brokers, the running process.
pub(super) fn run(args: &AnswerArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let config = setup::load(&args.place.config, log)?.config;
    let event = event(args)?;
    act::expect_sound(&event, "answer", &config)?;
    let episode = plain(&args.episode);
    let message = |became: &str| output::line(&format!("answer to episode {episode}: {became}"));
    if let Some(became) = act::to_topic(&config, args.place.address.as_deref(), &args.session, &event)? {
        return message(&became);
    }
    let process = RunningProcess::of(args.place.address.as_deref(), &config)?;
    let answer = process.post(EVENTS, &event, act::WAIT, act::ANSWER_BYTES_MAX);
    let answer = answer.map_err(|error| act::refused(&process, EVENTS, &process.nobody(&error)))?;
    act::taken(&process, EVENTS, &["202"], answer)?;
    message(&format!("taken by {}", process.address))
}

fn event(args: &AnswerArgs) -> Result<String, Failure> {
    let now = EventTime(clock::now_ms());
    let judged = match &args.span {
        Some(span) => {
            let why = || usage(&format!("--allow {span:?} is no span: as 90s, 30m, 2h, at most 7d"));
            Judged::Allowed(now.plus_ms(span_ms(span).ok_or_else(why)?))
        }
        None if args.right => Judged::Right,
        None => Judged::FalseAlarm,
    };
    let of = LoopAddress {
        tenant: args.tenant.clone(),
        session_id: args.session.clone(),
        agent_id: args.agent.clone(),
        episode: args.episode.clone(),
    };
    // A process with a log of its own writes who it knows instead.
    let (id, actor) = (format!("answer-{}-{}", now.0, std::process::id()), actor());
    Ok(of.answer(&Act { id: &id, at: now, actor: actor.as_deref(), reason: None }, judged).to_string())
}
