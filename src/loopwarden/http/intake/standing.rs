//! What of an act binds, as of the last commit: of an answer before it is written, since the same one while it holds is the same event, and
//! of any after it was judged, since only what binds is in force.

use std::sync::Arc;

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::{EventTime, Judged, MAIN_AGENT};
use loopwarden_core::identity::base32;
use loopwarden_core::limits::HTTP_ROWS_MAX;
use loopwarden_core::whom::Whom;
use loopwarden_lane::{AgentView, StopView};
use loopwarden_webhook::AnswerKind;

use crate::operate::act::{Act, Does, LoopAddress};
use crate::{clock, http::answer::Refusal, http::check::Desk, http::intake::found, http::shared::Process};

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
            let Some(agent) = agent(process, &of.session, of.agent_id.as_deref()).await? else { return Ok(None) };
            let head = &agent.session.head;
            let mut ends = head.exempt.iter().map(|exemption| exemption.until);
            Ok(ends.find(|end| head.knows(&id_of(*end))))
        }
        AnswerKind::Stop => {
            let Some(StopView { verdict, .. }) = stop(process, &of.session).await? else { return Ok(None) };
            let (command, end) = (found::find(process, &base32(&verdict.command_id.0)).await?, verdict.expires_at);
            let cause = command.as_ref().and_then(|command| command.pointer("/trigger/event_id")?.as_str());
            Ok(Some(end).filter(|end| cause == Some(&*id_of(*end))))
        }
    }
}

/// Whether an act that was judged binds: they are stopped until then, or go on, or the loop is let be.
pub(super) async fn binds(process: &Process, desk: &Desk, act: &Act) -> Result<bool, Refusal> {
    let stopped_until = || desk.stopped_until(&act.whom);
    let (episode, let_be_until) = match &act.does {
        // What was judged may have been dropped, as one more than there may be: only what the guard holds is in force.
        Does::Stop { until, .. } => return Ok(stopped_until() == Some(*until)),
        Does::Release => return Ok(stopped_until().is_none()),
        // That they are kept is all.
        Does::Answer { judged: Judged::Right, .. } | Does::Reset => return Ok(true),
        Does::Answer { episode, judged: Judged::FalseAlarm } => (episode, EventTime(i64::MAX)),
        Does::Answer { episode, judged: Judged::Allowed(until) } => (episode, *until),
    };
    let Some(agent) = agent(process, &act.whom, act.agent_id.as_deref()).await? else { return Ok(false) };
    let head = &agent.session.head;
    let mut open = head.episodes.iter().chain(&head.shadow_episodes);
    let is_open = open.any(|held| base32(&held.id.0) == *episode);
    Ok(!is_open && head.exempt.iter().any(|exemption| exemption.until == let_be_until))
}

/// An agent of a session.
async fn agent(process: &Process, session: &Whom, agent_id: Option<&str>) -> Result<Option<AgentView>, Refusal> {
    let whom = session.clone();
    let found = process.ask_lanes(move |view| view.agents(&whom.tenant, &whom.name)).await?.unwrap_or_default();
    let name = agent_id.unwrap_or(MAIN_AGENT);
    let is_it = |agent: &AgentView| matches!(&agent.subject, SubjectKey::Agent { agent_id, .. } if agent_id == name);
    Ok(found.into_iter().flatten().find(is_it))
}

/// The stop of a session that is in force.
async fn stop(process: &Process, session: &Whom) -> Result<Option<StopView>, Refusal> {
    let now = EventTime(clock::now_ms());
    let found = process.ask_lanes(move |view| view.stops(now, HTTP_ROWS_MAX)).await?.unwrap_or_default();
    Ok(found.into_iter().flat_map(|found| found.rows).find(|stop| stop.whom == *session))
}
