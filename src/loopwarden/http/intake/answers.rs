//! `POST /v1/answers`: what a person makes of a command. An answer is an event in the log like all others; who asks gives it his name.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, body::Body, extract::State, response::Response};
use loopwarden_core::event::{EventTime, Judged, is_name};
use loopwarden_core::limits::ALLOWED_MS_MAX;
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_webhook::AnswerKind;
use serde::Deserialize;
use serde_json::Value;

use crate::http::intake::{acts, effect::ActEffect, effect::Unchanged, found, standing};
use crate::operate::act::{Act, Does, LoopAddress, TYPED_NAME, act_id, span_ms};
use crate::operate::api;
use crate::{
    clock, http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::listener::body::BodyLimit, http::shared::Process,
};

/// What a request may take. Bytes.
const BODY: BodyLimit = BodyLimit { bytes_max: 16 * 1024, what: "an answer", advice: "" };
/// Letters of an id of a command.
const ID_CHARS: usize = 26;
/// The word for as long as an allowance may be.
const FOR_SESSION: &str = "session";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    command_id: Option<String>,
    tenant: Option<String>,
    session_id: Option<String>,
    agent_id: Option<String>,
    episode: Option<String>,
    answer: String,
    #[serde(rename = "for")]
    span: Option<String>,
    reason: Option<String>,
    /// One that comes again changes nothing.
    id: Option<String>,
}

/// An answer, whichever way it came.
pub(crate) struct Given<'a> {
    pub(crate) of: LoopAddress,
    /// What was answered; none where only the loop is known.
    pub(crate) command_id: Option<&'a str>,
    pub(crate) kind: AnswerKind,
    /// How long an allowance or a stop lasts. Milliseconds.
    pub(crate) span_ms: i64,
    /// Why, for people and as part of the label.
    pub(crate) reason: Option<&'a str>,
    /// The name that somebody has typed, whom nobody knows.
    pub(crate) typed_name: Option<&'a str>,
    /// Of the event; none: one that is equal for equal answers of one actor.
    pub(crate) id: Option<&'a str>,
}

/// What became of an answer.
pub(crate) struct Taken {
    pub(crate) id: String,
    /// Its end; none: it has none.
    pub(crate) until: Option<EventTime>,
    pub(crate) became: ActEffect,
}

/// Takes an answer of an operator, by a command or by the names of a loop.
pub(crate) async fn post(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    process.expect_acts()?;
    let (body, _memory) = process.shared.bodies.collect(&headers, body, BODY).await?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| answer::bad_request(format!("no answer: {error}")))?;
    let words = AnswerKind::ALL.map(AnswerKind::as_str).join(", ");
    let bad = |message: String| Refusal::from(answer::bad_request(message));
    let kind = AnswerKind::from_name(&asked.answer).ok_or_else(|| bad(format!("answer is one of {words}")))?;
    let span_ms = span(kind, asked.span.as_deref()).map_err(bad)?;
    let of = of_request(&process, &who, &asked, kind).await?;
    let given = Given {
        of: of.clone(),
        command_id: asked.command_id.as_deref(),
        kind,
        span_ms,
        reason: asked.reason.as_deref(),
        typed_name: None,
        id: asked.id.as_deref(),
    };
    let taken = give(&process, &who, &given).await?;
    if let ActEffect::Nothing(why) = taken.became {
        return Err(why.refusal());
    }
    let answered = api::TakenAnswer {
        id: taken.id,
        answer: kind.as_str().to_owned(),
        session_id: of.session.name,
        episode: of.episode,
        until: taken.until.map(EventTime::to_rfc3339),
        judged: taken.became == ActEffect::InForce,
    };
    Ok(answer::json(StatusCode::ACCEPTED, &answered))
}

/// How long an answer lasts. Milliseconds.
fn span(kind: AnswerKind, span: Option<&str>) -> Result<i64, String> {
    let spans = "as 90s, 30m, 2h, at most 7d";
    match (kind, span) {
        (AnswerKind::Right | AnswerKind::FalseAlarm, None) => Ok(0),
        (AnswerKind::Right | AnswerKind::FalseAlarm, Some(_)) => Err("only allow and stop have for".to_owned()),
        (AnswerKind::Allow, Some(FOR_SESSION)) => Ok(ALLOWED_MS_MAX),
        (AnswerKind::Allow, span) => {
            span.and_then(span_ms).ok_or_else(|| format!("allow needs for, {spans}, or {FOR_SESSION:?}"))
        }
        (AnswerKind::Stop, span) => span.and_then(span_ms).ok_or_else(|| format!("stop needs for, {spans}")),
    }
}

/// The loop that a request means: by a command that is kept, or by its own names.
async fn of_request(process: &Arc<Process>, who: &Principal, asked: &Asked, kind: AnswerKind) -> Result<LoopAddress, Refusal> {
    let bad = |message: &str| Refusal::from(answer::bad_request(message));
    let Asked { command_id, tenant, session_id, agent_id, episode, .. } = asked;
    if let Some(id) = command_id {
        let more = [tenant, session_id, agent_id, episode].iter().any(|name| name.is_some());
        if more {
            return Err(bad("command_id names its loop; leave out session_id, agent_id, episode and tenant"));
        }
        if id.len() != ID_CHARS || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(bad("command_id is the id of a command: 26 letters and digits"));
        }
        return of_command(process, who, id).await;
    }
    let session_id = session_id.clone().ok_or_else(|| bad("an answer needs command_id, or session_id and episode"))?;
    let episode = match episode {
        Some(episode) => episode.clone(),
        None if kind == AnswerKind::Stop => String::new(),
        None => return Err(bad("an answer without command_id needs episode, as the commands of the loop have it")),
    };
    let tenant = who.tenant(tenant.clone()).ok_or_else(|| foreign_tenant(who))?;
    let of = LoopAddress { session: Whom::new(&tenant, Kind::Session, &session_id), agent_id: agent_id.clone(), episode };
    // A process with a log of its own has all there is: what neither its lanes nor its commands know was never spoken about.
    let is_sound = is_name(&session_id) && kind != AnswerKind::Stop;
    if is_sound && process.embedded.is_some() && !is_known(process, &of).await? {
        return Err(no_such_command("this session has no such loop open, and this process keeps no command about it"));
    }
    Ok(of)
}

/// Whether a loop is open, or the first command about it is kept.
async fn is_known(process: &Arc<Process>, of: &LoopAddress) -> Result<bool, Refusal> {
    let LoopAddress { session, agent_id, episode } = of;
    if episode.len() != ID_CHARS {
        return Ok(false);
    }
    if standing::open_loop(process, session, agent_id.as_deref(), episode).await?.is_some() {
        return Ok(true);
    }
    let first = found::find(process, episode).await?;
    let is = |name: &str, value: &str| {
        first.as_ref().is_some_and(|first| first.get(name).and_then(Value::as_str).unwrap_or_default() == value)
    };
    Ok(is("session_id", &session.name) && is("tenant", &session.tenant))
}

fn no_such_command(message: &str) -> Refusal {
    answer::error(StatusCode::NOT_FOUND, "no_such_command", message).into()
}

/// The loop of a command that this process keeps.
async fn of_command(process: &Arc<Process>, who: &Principal, id: &str) -> Result<LoopAddress, Refusal> {
    let found = found::find(process, id).await?;
    // Of another tenant is for whoever asks as if there were none.
    let at = |command: &Value, pointer: &str| command.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let is_his = |command: &Value| who.tenants.have(&at(command, "/tenant").unwrap_or_default());
    let Some(command) = found.filter(is_his) else {
        let message = "this process keeps no such command any more, or another one has it; name its loop: session_id and episode \
                       (tenant, agent_id), as the command has them";
        return Err(no_such_command(message));
    };
    match (at(&command, "/session_id"), at(&command, "/episode")) {
        (Some(session_id), Some(episode)) if at(&command, "/scope/by").is_none() => {
            let session = Whom::new(&at(&command, "/tenant").unwrap_or_default(), Kind::Session, &session_id);
            Ok(LoopAddress { session, agent_id: at(&command, "/scope/agent_id"), episode })
        }
        _ => {
            let message = "this command is about no loop of a session; /v1/stops stops and releases swarms, tenants and agents, and a \
                           policy changes a budget";
            Err(answer::error(StatusCode::CONFLICT, "no_loop_of_session", message).into())
        }
    }
}

/// Ends of answers are whole parts of their span, so that the same answer twice at once has one end, and thereby one id. Milliseconds.
fn end_step(span_ms: i64) -> i64 {
    (span_ms / 60).clamp(1, 60_000)
}

/// Ends that are tried, each a step later: an equal stop was given before in the same step, and released since.
const ENDS_MAX: usize = 8;

/// Gives an answer: its event is written, and judged soon. What became of it is what binds then. While it holds, the same answer is the same
/// event; after its end or its release it is a new one.
pub(crate) async fn give(process: &Arc<Process>, who: &Principal, given: &Given<'_>) -> Result<Taken, Refusal> {
    let Given { of, kind, span_ms, .. } = given;
    let now = EventTime(clock::now_ms());
    let id_of = |end: EventTime| given.id.map_or_else(|| own_id(who, given, end), str::to_owned);
    if *span_ms == 0 {
        let id = id_of(EventTime(0));
        let became = acts::take(process, who, act(given, &id, now, now)).await?;
        return Ok(Taken { id, until: None, became });
    }
    let step = end_step(*span_ms);
    let fresh = EventTime((now.plus_ms(*span_ms).0 + step - 1) / step * step);
    let held = if given.id.is_none() { standing::given_until(process, of, *kind, &id_of).await? } else { None };
    let mut until = held.filter(|end| *end > now && *end <= fresh).unwrap_or(fresh);
    for _ in 0..ENDS_MAX {
        let id = id_of(until);
        let became = acts::take(process, who, act(given, &id, until, now)).await?;
        let is_of_before = matches!(became, ActEffect::Nothing(Unchanged::NotInForce(_)));
        if !is_of_before || *kind != AnswerKind::Stop || given.id.is_some() {
            return Ok(Taken { id, until: Some(until), became });
        }
        until = until.plus_ms(step);
    }
    Ok(Taken { id: id_of(until), until: None, became: ActEffect::Nothing(Unchanged::NotInForce(None)) })
}

/// An id of an answer that brings none: equal for equal answers of one actor with one end.
fn own_id(who: &Principal, given: &Given<'_>, end: EventTime) -> String {
    let Given { of, kind, span_ms, .. } = given;
    let agent = of.agent_id.as_deref().unwrap_or_default();
    let about = given.command_id.unwrap_or(&of.episode);
    let [span, end] = [*span_ms, end.0].map(|ms| ms.to_string());
    act_id("answer", &[&*who.name, kind.as_str(), &*span, &*of.session.tenant, &*of.session.name, agent, about, &*end])
}

/// What an answer does until a time.
fn act(given: &Given<'_>, id: &str, until: EventTime, at: EventTime) -> Act {
    let LoopAddress { session, agent_id, episode } = given.of.clone();
    let judged = match given.kind {
        AnswerKind::Right => Some(Judged::Right),
        AnswerKind::FalseAlarm => Some(Judged::FalseAlarm),
        AnswerKind::Allow => Some(Judged::Allowed(until)),
        AnswerKind::Stop => None,
    };
    let (agent_id, does, why) = match judged {
        Some(judged) => (agent_id, Does::Answer { episode, judged }, None),
        None => (None, Does::Stop { until, fails_closed: false }, Some("a person answered a command")),
    };
    let labels = given.typed_name.map(|name| (TYPED_NAME, name.to_owned())).into_iter().collect();
    Act { id: id.to_owned(), at, reason: given.reason.or(why).map(str::to_owned), labels, whom: session, agent_id, does }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_has_a_span_and_it_must_have_one() {
        let of = |kind, text| span(kind, text);
        assert_eq!(of(AnswerKind::Right, None), Ok(0));
        assert_eq!(of(AnswerKind::Allow, Some("1h")), Ok(3_600_000));
        assert_eq!(of(AnswerKind::Allow, Some("session")), Ok(ALLOWED_MS_MAX));
        assert_eq!(of(AnswerKind::Stop, Some("7d")), Ok(604_800_000));
        for (kind, text) in [
            (AnswerKind::Right, Some("1h")),
            (AnswerKind::FalseAlarm, Some("session")),
            (AnswerKind::Allow, None),
            (AnswerKind::Allow, Some("8d")),
            (AnswerKind::Stop, None),
            (AnswerKind::Stop, Some("session")),
        ] {
            assert!(of(kind, text).is_err(), "{kind:?} {text:?}");
        }
    }
}
