//! What of an answer binds, as of the last commit: looked at before it is written, since the same answer while it holds is the same event,
//! and again after it was judged, since only what binds is in force.

use std::sync::Arc;

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::{EventTime, MAIN_AGENT};
use loopwarden_core::identity::base32;
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_lane::AgentView;
use loopwarden_webhook::AnswerKind;
use serde_json::Value;

use crate::acts::LoopAddress;
use crate::{http::answer, http::answer::Refusal, http::intake::found, http::shared::Process};

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
            let Some((command_id, end)) = stop(process, of).await? else { return Ok(None) };
            let command = found::find(process, &command_id).await?;
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
async fn agent(process: &Arc<Process>, of: &LoopAddress) -> Result<Option<AgentView>, Refusal> {
    let (status, of) = (Arc::clone(&process.status), of.clone());
    let found = answer::blocking(&process.asks, move || {
        let agents = status.session(of.tenant.as_deref(), &of.session_id).unwrap_or_default();
        let name = of.agent_id.as_deref().unwrap_or(MAIN_AGENT).to_owned();
        agents.into_iter().find(|agent| matches!(&agent.subject, SubjectKey::Agent { agent_id, .. } if *agent_id == name))
    });
    found.await
}

/// The stop of a session that is in force: its command, and its end.
async fn stop(process: &Arc<Process>, of: &LoopAddress) -> Result<Option<(String, EventTime)>, Refusal> {
    let status = Arc::clone(&process.status);
    let found = answer::blocking(&process.asks, move || status.stops()).await?.unwrap_or_default();
    let stop = found.rows.iter().filter_map(|row| serde_json::from_slice::<Value>(row).ok()).find_map(|row| {
        let at = |pointer: &str| row.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let is_meant = at("/subject/scope") == Kind::Session.as_str()
            && at("/subject/session_id") == of.session_id
            && at("/subject/tenant") == of.tenant.as_deref().unwrap_or_default();
        let end = EventTime::parse_rfc3339(at("/active/0/expires_at")).filter(|_| is_meant)?;
        Some((at("/active/0/command_id").to_owned(), end))
    });
    Ok(stop)
}
