//! `/v1/stops`: whom operators stop. A stop and its release are events in the log like all others; who asks gives them their name.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, body::Body, response::Response};
use loopwarden_core::event::{EventTime, is_name};
use loopwarden_core::whom::{Kind, Whom};
use loopwarden_core::{engine::SubjectKey, limits::HTTP_ROWS_MAX, limits::STOP_MS_MAX};
use loopwarden_lane::{FirstRows, StopView};
use serde::Deserialize;

use crate::http::intake::{acts, effect::ActEffect};
use crate::http::views::query::{Pairs, Parameters};
use crate::operate::act::{Act, Does, act_id, span_ms};
use crate::{
    clock, http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal,
    http::listener::body::BodyLimit, http::shared::Process, operate::api, operate::shown,
};

/// What a request may take. Bytes.
const BODY: BodyLimit = BodyLimit { bytes_max: 16 * 1024, what: "a stop", advice: "" };
const TARGET: [&str; 6] = ["scope", "tenant", "session_id", "agent_id", "root_id", "swarm_id"];
/// Parameters that name whom a stop means.
const NAMES: [&str; 4] = ["session_id", "agent_id", "root_id", "swarm_id"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    scope: String,
    tenant: Option<String>,
    session_id: Option<String>,
    agent_id: Option<String>,
    root_id: Option<String>,
    swarm_id: Option<String>,
    reason: Option<String>,
    #[serde(rename = "for")]
    span: Option<String>,
    until: Option<String>,
    fail: Option<String>,
    /// One that comes again changes nothing.
    id: Option<String>,
    #[serde(default)]
    dry_run: bool,
}

/// Stops agents, or counts those that it would stop.
pub(crate) async fn post(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    process.expect_acts()?;
    let (body, _memory) = process.shared.bodies.collect(&headers, body, BODY).await?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| answer::bad_request(format!("no stop: {error}")))?;
    let values = [&asked.session_id, &asked.agent_id, &asked.root_id, &asked.swarm_id].map(Option::as_deref);
    let whom = whom(&who, &asked.scope, asked.tenant.clone(), &values)?;
    let now = EventTime(clock::now_ms());
    let until = until(&asked, now).map_err(answer::bad_request)?;
    let fails_closed = match asked.fail.as_deref() {
        None | Some("open") => false,
        Some("closed") => true,
        Some(_) => return Err(answer::bad_request("fail is \"open\" or \"closed\"").into()),
    };
    if asked.dry_run {
        if [&asked.id, &asked.reason].into_iter().flatten().any(|word| !is_name(word)) {
            return Err(answer::bad_request("id and reason are one line of 1 to 256 characters").into());
        }
        let found = process.ask_lanes(move |view| view.matching(&whom)).await??;
        let (agents, more) = (found.iter().map(|(agents, _)| agents).sum::<u64>(), found.iter().any(|(_, more)| *more));
        return Ok(answer::ok(&api::DryRun { would_stop: api::WouldStop { agents, more } }));
    }
    let Some(reason) = asked.reason else { return Err(answer::bad_request("a stop has a reason").into()) };
    let own_id = || own_id("stop", &whom, &[&until.to_rfc3339(), &reason], now);
    let (id, does) = (asked.id.unwrap_or_else(own_id), Does::Stop { until, fails_closed });
    let act = Act { id: id.clone(), at: now, reason: Some(reason), labels: BTreeMap::new(), whom, agent_id: None, does };
    let in_force = in_force(acts::take(&process, &who, act).await?)?;
    Ok(answer::json(StatusCode::ACCEPTED, &api::Stopped { id, until: until.to_rfc3339(), in_force }))
}

/// Releases. Where nobody was stopped, that is the answer.
pub(crate) async fn delete(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    process.expect_acts()?;
    let known: Vec<&str> = TARGET.into_iter().chain(["reason", "id"]).collect();
    let query = Parameters::of(&pairs, &known).map_err(answer::bad_request)?;
    let values = NAMES.map(|name| query.get(name));
    let whom = whom(&who, query.get("scope").unwrap_or_default(), query.get("tenant").map(str::to_owned), &values)?;
    let (now, reason) = (EventTime(clock::now_ms()), query.get("reason").map(str::to_owned));
    let id = query.get("id").map_or_else(|| own_id("release", &whom, &[], now), str::to_owned);
    let act = Act { id: id.clone(), at: now, reason, labels: BTreeMap::new(), whom, agent_id: None, does: Does::Release };
    let released = in_force(acts::take(&process, &who, act).await?)?;
    Ok(answer::json(StatusCode::ACCEPTED, &api::Released { id, released }))
}

/// Whether an act is in force by now.
///
/// # Errors
/// It changed nothing.
fn in_force(became: ActEffect) -> Result<bool, Refusal> {
    match became {
        ActEffect::Nothing(why) => Err(why.refusal()),
        became => Ok(became == ActEffect::InForce),
    }
}

/// Stops in force that concern whoever asks.
pub(crate) async fn get(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = Parameters::of(&pairs, &["tenant"]).map_err(answer::bad_request)?;
    let only = query.get("tenant").map(str::to_owned);
    if only.as_ref().is_some_and(|tenant| !who.tenants.have(tenant)) {
        return Err(foreign_tenant(&who));
    }
    let now = EventTime(clock::now_ms());
    let found: FirstRows<StopView> = process.ask_lanes(move |view| view.stops(now, HTTP_ROWS_MAX)).await??.into_iter().sum();
    let concerns = |StopView { whom, .. }: &&StopView| {
        let is_asked = only.as_ref().is_none_or(|only| *only == whom.tenant) && who.tenants.have(&whom.tenant);
        is_asked || whom.kind == Kind::All
    };
    let mut stops: Vec<api::Stop> = found.rows.iter().filter(concerns).map(shown::stop).collect();
    stops.sort_by(|one, other| other.since.cmp(&one.since));
    Ok(answer::ok(&api::StopList { stops, more: found.more }))
}

/// Whom a request means, by the values of [`NAMES`]. Only the name of its scope may be given: another one would be taken for a narrower
/// stop than is meant.
fn whom(who: &Principal, scope: &str, tenant: Option<String>, values: &[Option<&str>; 4]) -> Result<Whom, Refusal> {
    let mut names = NAMES.into_iter().zip(values);
    let bad = |message: String| Refusal::from(answer::bad_request(message));
    let words = Kind::stopped().map(Kind::as_str).collect::<Vec<_>>().join(", ");
    let scope = Kind::stopped().find(|kind| kind.as_str() == scope).ok_or_else(|| bad(format!("scope is one of {words}")))?;
    let own = scope.field();
    if let Some((other, _)) = names.clone().find(|(name, value)| value.is_some() && Some(*name) != own) {
        return Err(bad(format!("a stop of scope {} has no {other}", scope.as_str())));
    }
    let name = names.find(|(name, _)| Some(*name) == own).and_then(|(_, value)| *value);
    if let (Some(own), None) = (own, name) {
        return Err(bad(format!("a stop of scope {} needs {own}", scope.as_str())));
    }
    let name = name.unwrap_or_default();
    if scope == Kind::All {
        if tenant.is_some() {
            return Err(bad("a stop of scope all has no tenant; of one tenant: scope tenant".to_owned()));
        }
        return if who.tenants.are_all() { Ok(Whom::new("", scope, name)) } else { Err(foreign_tenant(who)) };
    }
    let tenant = who.tenant(tenant).ok_or_else(|| foreign_tenant(who))?;
    if scope == Kind::Tenant && tenant.is_empty() {
        return Err(bad("a stop of scope tenant needs tenant".to_owned()));
    }
    Ok(Whom::new(&tenant, scope, name))
}

fn until(asked: &Asked, now: EventTime) -> Result<EventTime, String> {
    let form = "a stop has an end: for, as 90s, 30m, 2h or up to 7d, or until, a time of RFC 3339 at most seven days ahead";
    let until = match (&asked.span, &asked.until) {
        (Some(span), None) => span_ms(span).map(|span_ms| now.plus_ms(span_ms)),
        (None, Some(until)) => EventTime::parse_rfc3339(until),
        // Nothing is stopped by it.
        (None, None) if asked.dry_run => Some(now.plus_ms(1)),
        _ => None,
    };
    until.filter(|until| *until > now && *until <= now.plus_ms(STOP_MS_MAX)).ok_or_else(|| form.to_owned())
}

/// An id of an act that brings none, made of all its parts and of when it came.
fn own_id(kind: &str, whom: &Whom, more: &[&str], now: EventTime) -> String {
    let (key, at) = (SubjectKey::Stop(whom.clone()).row_key(), now.0.to_string());
    act_id(kind, &[&[&*key, &*at], more].concat())
}
