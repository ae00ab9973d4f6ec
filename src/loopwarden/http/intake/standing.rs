//! What of an act binds, as of the last commit of the lanes: of an answer before it is written, since the same one while it holds is the same
//! event, and of any after it was judged, since only what binds is in force.

use loopwarden_core::engine::{RELEASED, StopState, SubjectKey};
use loopwarden_core::event::{EventTime, Judged, MAIN_AGENT, Reach};
use loopwarden_core::identity::{Hash64, base32};
use loopwarden_core::whom::Whom;
use loopwarden_lane::AgentView;
use loopwarden_webhook::AnswerKind;

use crate::http::intake::effect::{ActEffect, Unchanged};
use crate::operate::act::{Act, Does, LoopAddress};
use crate::operate::lanes::Unanswered;
use crate::{clock, http::answer::Refusal, http::shared::Process};

/// Until when an answer holds that was given before and still does; `id_of` makes the id that it has with an end. None where there is none,
/// or where no lane of this process knows.
pub(super) async fn given_until(
    process: &Process,
    of: &LoopAddress,
    kind: AnswerKind,
    id_of: &(dyn Fn(EventTime) -> String + Sync),
) -> Result<Option<EventTime>, Refusal> {
    match kind {
        AnswerKind::Right | AnswerKind::FalseAlarm => Ok(None),
        AnswerKind::Allow => {
            let Ok(Some(agent)) = agent(process, &of.session, of.agent_id.as_deref()).await? else { return Ok(None) };
            let head = &agent.session.head;
            let mut ends = head.exempt.iter().map(|exemption| exemption.until);
            Ok(ends.find(|end| head.knows(&id_of(*end))))
        }
        AnswerKind::Stop => {
            let Ok(Some(state)) = stop(process, &of.session).await? else { return Ok(None) };
            let end = state.in_force(now()).map(|held| held.expires_at);
            Ok(end.filter(|end| state.has_seen("stop", &id_of(*end))))
        }
    }
}

/// The identity of a loop by its episode; none where its agent has no such loop open, or lies elsewhere.
pub(super) async fn open_loop(
    process: &Process,
    session: &Whom,
    agent_id: Option<&str>,
    episode: &str,
) -> Result<Option<Hash64>, Refusal> {
    let Ok(Some(agent)) = agent(process, session, agent_id).await? else { return Ok(None) };
    let head = &agent.session.head;
    let mut open = head.episodes.iter().chain(&head.shadow_episodes);
    Ok(open.find(|held| base32(&held.id.0) == episode).map(|held| held.identity))
}

/// What became of an act that was judged. `reach`: of whoever acts; `open`: the loop that was open before.
pub(super) async fn became(process: &Process, act: &Act, reach: Reach, open: Option<Hash64>) -> Result<ActEffect, Refusal> {
    let let_be_until = match &act.does {
        Does::Stop { .. } | Does::Release => {
            // Lanes that do not answer in time have judged it all the same.
            let Ok(state) = stop(process, &act.whom).await? else { return Ok(ActEffect::Waits) };
            return Ok(of_stop(act, reach, state.as_ref(), now()).map_or(ActEffect::InForce, ActEffect::Nothing));
        }
        // That they are kept is all.
        Does::Answer { judged: Judged::Right, .. } | Does::Reset => return Ok(ActEffect::InForce),
        Does::Answer { judged: Judged::FalseAlarm, .. } => EventTime(i64::MAX),
        Does::Answer { judged: Judged::Allowed(until), .. } => *until,
    };
    let Ok(agent) = agent(process, &act.whom, act.agent_id.as_deref()).await? else { return Ok(ActEffect::Waits) };
    let is_let_be = agent.is_some_and(|AgentView { session, .. }| {
        let mut exempt = session.head.exempt.iter().filter(|exemption| exemption.until == let_be_until);
        // Of a loop that is open no more, the same answer has let it be before.
        exempt.any(|exemption| open.map_or_else(|| session.head.knows(&act.id), |open| exemption.identity == open))
    });
    Ok(if is_let_be { ActEffect::InForce } else { ActEffect::Nothing(Unchanged::NoOpenLoop) })
}

/// Why a stop or release is not what holds of its subject; none: it is.
fn of_stop(act: &Act, reach: Reach, state: Option<&StopState>, now: EventTime) -> Option<Unchanged> {
    let held = state.and_then(|state| state.in_force(now));
    let is_wider = held.and_then(|held| held.stop()).is_some_and(|by| by.reach > reach);
    let has_seen = |what: &str| state.is_some_and(|state| state.has_seen(what, &act.id));
    match (&act.does, held) {
        (Does::Stop { until, .. }, Some(held)) if held.expires_at == *until => None,
        (_, Some(held)) if is_wider => Some(Unchanged::WiderStop(held.expires_at)),
        (Does::Stop { .. }, None) if !has_seen(act.kind()) => Some(Unchanged::TooManyStops),
        (Does::Release, None) if has_seen(RELEASED) => None,
        (Does::Release, None) => Some(Unchanged::NothingToRelease),
        (_, held) => Some(Unchanged::NotInForce(held.map(|held| held.expires_at))),
    }
}

fn now() -> EventTime {
    EventTime(clock::now_ms())
}

/// An agent of a session; none where no lane of this process has it.
async fn agent(
    process: &Process,
    session: &Whom,
    agent_id: Option<&str>,
) -> Result<Result<Option<AgentView>, Unanswered>, Refusal> {
    let whom = session.clone();
    let found = process.ask_lanes(move |view| view.agents(&whom.tenant, &whom.name)).await?;
    let name = agent_id.unwrap_or(MAIN_AGENT);
    let is_it = |agent: &AgentView| matches!(&agent.subject, SubjectKey::Agent { agent_id, .. } if agent_id == name);
    Ok(found.map(|found| found.into_iter().flatten().find(is_it)))
}

/// What lanes of this process know of whom an operator stops.
async fn stop(process: &Process, whom: &Whom) -> Result<Result<Option<StopState>, Unanswered>, Refusal> {
    let whom = whom.clone();
    let found = process.ask_lanes(move |view| view.stop(&whom)).await?;
    Ok(found.map(|found| found.into_iter().flatten().next()))
}
