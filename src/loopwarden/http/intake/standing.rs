//! What of an answer binds, as of the last commit: looked at before it is written, since the same answer while it holds is the same event,
//! and again after it was judged, since only what binds is in force.

use std::sync::Arc;

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::{EventTime, MAIN_AGENT};
use loopwarden_core::identity::base32;
use loopwarden_core::limits::HTTP_ROWS_MAX;
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_lane::{AgentView, StopView};
use loopwarden_webhook::AnswerKind;

use crate::acts::LoopAddress;
use crate::{clock, http::answer::Refusal, http::intake::found, http::shared::Process};

/// Whom a stop of a loop's session means.
pub(super) fn session_of(of: &LoopAddress) -> Whom {
    Whom::new(of.tenant.as_deref().unwrap_or_default(), Kind::Session, &of.session_id)
}

/// Until when an answer holds that was given before and still does; `id_of` makes the id that it has with an end. None where there is none,
/// or where no lane of this process knows.
pub(super) async fn given_until(
    process: &Arc<Process>,
    of: &LoopAddress,
    kind: AnswerKind,
    id_of: &(dyn Fn(EventTime) -> String + Sync),
) -> Result<Option<EventTime>, Refusal> {
    match kind {
        AnswerKind::Right | AnswerKind::FalseAlarm => Ok(None),
        AnswerKind::Allow => {
            let Some(agent) = agent(process, of).await? else { return Ok(None) };
            let head = &agent.session.head;
            let mut ends = head.exempt.iter().map(|exemption| exemption.until);
            Ok(ends.find(|end| head.knows(&id_of(*end))))
        }
        AnswerKind::Stop => {
            let Some(StopView { verdict, .. }) = stop(process, of).await? else { return Ok(None) };
            let (command, end) = (found::find(process, &base32(&verdict.command_id.0)).await?, verdict.expires_at);
            let cause = command.as_ref().and_then(|command| command.pointer("/trigger/event_id")?.as_str());
            Ok(Some(end).filter(|end| cause == Some(&*id_of(*end))))
        }
    }
}

/// Whether an answer that was judged binds: its session is stopped until then, or its loop is let be.
pub(super) async fn binds(process: &Arc<Process>, of: &LoopAddress, kind: AnswerKind, end: EventTime) -> Result<bool, Refusal> {
    let let_be_until = match kind {
        // A label: that it is kept is all.
        AnswerKind::Right => return Ok(true),
        AnswerKind::Stop => {
            let key = SubjectKey::Stop(session_of(of)).row_key();
            return Ok(process.shared.desk.as_ref().is_some_and(|desk| desk.stopped_until(&key) == Some(end)));
        }
        AnswerKind::FalseAlarm => EventTime(i64::MAX),
        AnswerKind::Allow => end,
    };
    let Some(agent) = agent(process, of).await? else { return Ok(false) };
    let head = &agent.session.head;
    let mut open = head.episodes.iter().chain(&head.shadow_episodes);
    let is_open = open.any(|episode| base32(&episode.id.0) == of.episode);
    Ok(!is_open && head.exempt.iter().any(|exemption| exemption.until == let_be_until))
}

/// The agent of a loop.
async fn agent(process: &Process, of: &LoopAddress) -> Result<Option<AgentView>, Refusal> {
    let (tenant, session_id) = (of.tenant.clone(), of.session_id.clone());
    let found = process.ask_lanes(move |view| view.agents(tenant.as_deref(), &session_id)).await?.unwrap_or_default();
    let name = of.agent_id.as_deref().unwrap_or(MAIN_AGENT);
    let is_it = |agent: &AgentView| matches!(&agent.subject, SubjectKey::Agent { agent_id, .. } if agent_id == name);
    Ok(found.into_iter().flatten().find(is_it))
}

/// The stop of a session that is in force.
async fn stop(process: &Process, of: &LoopAddress) -> Result<Option<StopView>, Refusal> {
    let (whom, now) = (session_of(of), EventTime(clock::now_ms()));
    let found = process.ask_lanes(move |view| view.stops(now, HTTP_ROWS_MAX)).await?.unwrap_or_default();
    Ok(found.into_iter().flat_map(|found| found.rows).find(|stop| stop.whom == whom))
}
