//! What is known and in force: `GET /v1/state/{session_id}`, `/sessions/{id}`, `/swarms/{id}`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::extract::{Path, Query, State};
use axum::{Extension, http::StatusCode, response::Response};
use loopwarden_core::engine::SEPARATOR;
use loopwarden_core::event::EventTime;
use loopwarden_lane::{AgentView, FirstRows, StopView};
use loopwarden_log::embedded::StateRow;
use serde_json::Value;

use crate::http::shared::{Embedded, Process};
use crate::http::views::{query, query::Pairs, query::Parameters};
use crate::{clock, limits, operate::api, operate::sessions::STOPS_MAX, operate::shown};
use crate::{http::access::gate::foreign_tenant, http::access::principal::Principal, http::answer, http::answer::Refusal};

/// Wait for the sync that covers what was read.
const SYNC_WAIT: Duration = Duration::from_secs(5);

/// Verdicts in force for a session: its agents', and its swarms'.
pub(crate) async fn rows(
    State(process): State<Arc<Process>>,
    Path(session_id): Path<String>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let embedded = process.log()?;
    let tenant = his_tenant(&who, &asked(&session_id, &pairs, &["tenant"])?)?;
    let agents = agents(&process, &tenant, session_id.clone()).await?;
    let mut prefixes = vec![prefix("agent", &tenant, &session_id)];
    let swarms: BTreeSet<&str> = agents.iter().map(|agent| &*agent.session.head.swarm_id).filter(|id| !id.is_empty()).collect();
    prefixes.extend(swarms.into_iter().map(|swarm_id| prefix("swarm", &tenant, swarm_id)));
    let Rows { rows, more } = read_rows(embedded, prefixes).await?;
    Ok(answer::json_text(StatusCode::OK, format!("{{\"active\":[{}],\"more\":{more}}}", rows.join(","))))
}

/// What is asked of a name, as an event may have it, with parameters that the route knows.
fn asked(name: &str, pairs: &[(String, String)], known: &[&str]) -> Result<Parameters, Refusal> {
    let parameters = query::checked_name("what stands in the path", name).and_then(|()| Parameters::of(pairs, known));
    parameters.map_err(|why| answer::bad_request(why).into())
}

/// The tenant that is asked about; empty: none.
fn his_tenant(who: &Principal, query: &Parameters) -> Result<String, Refusal> {
    who.tenant(query.get("tenant").map(str::to_owned)).ok_or_else(|| foreign_tenant(who))
}

fn prefix(kind: &str, tenant: &str, name: &str) -> String {
    format!("{kind}{SEPARATOR}{tenant}{SEPARATOR}{name}{SEPARATOR}")
}

/// State rows, as JSON texts.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<String>,
    /// Whether there are others than these.
    pub(crate) more: bool,
}

impl Rows {
    /// As many as are shown.
    fn of<'a>(rows: impl ExactSizeIterator<Item = &'a [u8]>, now: EventTime) -> Self {
        let more = rows.len() > limits::HTTP_ROWS_MAX;
        Self { rows: rows.take(limits::HTTP_ROWS_MAX).map(|row| as_of(row, now)).collect(), more }
    }

    /// Of what lanes have told, what is in force now.
    pub(crate) fn of_lanes(found: &FirstRows<Vec<u8>>) -> Self {
        let now = EventTime(clock::now_ms());
        let rows: Vec<&[u8]> = found.rows.iter().map(Vec::as_slice).filter(|row| !is_over(row, now)).collect();
        let rows = Self::of(rows.into_iter(), now);
        Self { more: rows.more || found.more, ..rows }
    }
}

/// State rows under some prefixes that say something of now. A row goes with a timer of its partition, whose clock lags
/// behind by the lateness it allows: until then it speaks of what is over.
pub(crate) async fn read_rows(embedded: &Embedded, prefixes: Vec<String>) -> Result<Rows, Refusal> {
    let reader = embedded.reader.clone();
    let now = EventTime(clock::now_ms());
    let read = answer::blocking(&embedded.reads, move || {
        let in_force = |row: &[u8]| !is_over(row, now);
        let mut rows: Vec<StateRow> = Vec::new();
        for prefix in prefixes {
            // One row beyond what is shown, which tells that there are more.
            let left = (limits::HTTP_ROWS_MAX + 1).saturating_sub(rows.len());
            rows.extend(reader.rows(prefix.as_bytes(), &in_force, left, SYNC_WAIT)?);
        }
        Ok(rows)
    });
    let rows: Result<_, loopwarden_log::LogError> = read.await?;
    let rows = rows.map_err(|error| answer::unread(&error))?;
    Ok(Rows::of(rows.iter().map(|(_, value)| &**value), now))
}

/// Whether all that a row says is in force has expired.
fn is_over(row: &[u8], now: EventTime) -> bool {
    serde_json::from_slice(row).is_ok_and(|row: Value| has_expired(&row, now))
}

fn has_expired(dated: &Value, now: EventTime) -> bool {
    let expiry = dated.get("expires_at").and_then(|expiry| EventTime::parse_rfc3339(expiry.as_str()?));
    expiry.is_some_and(|expiry| expiry <= now)
}

/// A row without those of its verdicts that are over: a nudge lasts longer than the block beside it.
fn as_of(row: &[u8], now: EventTime) -> String {
    let text = || String::from_utf8_lossy(row).into_owned();
    let Ok(mut parsed) = serde_json::from_slice::<Value>(row) else { return text() };
    let Some(active) = parsed.get_mut("active").and_then(Value::as_array_mut) else { return text() };
    let before = active.len();
    active.retain(|verdict| !has_expired(verdict, now));
    if active.len() == before {
        return text();
    }
    let is_blocked = active.iter().any(|verdict| verdict.get("action").is_some_and(|action| action == "block"));
    if let Some(status) = parsed.get_mut("status") {
        *status = if is_blocked { "blocked" } else { "nudged" }.into();
    }
    parsed.to_string()
}

async fn agents(process: &Process, tenant: &str, session_id: String) -> Result<Vec<AgentView>, Refusal> {
    let tenant = tenant.to_owned();
    let found = process.ask_lanes(move |view| view.agents(&tenant, &session_id)).await??;
    Ok(found.into_iter().flatten().collect())
}

/// A session with its agents: verdicts, episodes, streaks, steps.
pub(crate) async fn session(
    State(process): State<Arc<Process>>,
    Path(id): Path<String>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let query = asked(&id, &pairs, &["tenant", "steps"])?;
    let steps = match query.get("steps").map_or(Ok(limits::HTTP_STEPS_SHOWN), str::parse) {
        Ok(steps) if steps <= limits::HTTP_STEPS_MAX => steps,
        _ => return Err(answer::bad_request(format!("steps is a number up to {}", limits::HTTP_STEPS_MAX)).into()),
    };
    let tenant = his_tenant(&who, &query)?;
    let agents = agents(&process, &tenant, id.clone()).await?;
    if agents.is_empty() {
        let place = process.status.place_of(&id);
        let of = if tenant.is_empty() { "; of a session with a tenant: give tenant, too" } else { "" };
        return Err(answer::error(StatusCode::NOT_FOUND, "no_such_session", format!("{place}{of}")).into());
    }
    let now = EventTime(clock::now_ms());
    // Lanes that are too busy to answer have answered about the session: it is shown all the same.
    let found = process.ask_lanes(move |view| view.stops(now, STOPS_MAX)).await?.unwrap_or_default();
    let binds = |stop: &StopView, agent: &AgentView| agent.who().is_some_and(|who| who.is(&stop.whom));
    let found = found.into_iter().flat_map(|found| found.rows);
    let binding: Vec<StopView> = found.filter(|stop| agents.iter().any(|agent| binds(stop, agent))).collect();
    let agents = Arc::new(agents);
    let spenders = Arc::clone(&agents);
    let budgets = process.ask_lanes(move |view| view.budgets(&spenders, now)).await?.unwrap_or_default();
    let budgets = budgets.iter().flatten().map(shown::budget).collect();
    let is_stopped = |agent: &AgentView| binding.iter().any(|stop| binds(stop, agent));
    let agents = agents.iter().map(|agent| shown::agent(agent, is_stopped(agent), steps, now)).collect();
    Ok(answer::ok(&api::Session { session_id: id, agents, stops: binding.iter().map(shown::stop).collect(), budgets }))
}

/// A swarm: what is counted for it, and in embedded mode its rows in force.
pub(crate) async fn swarm(
    State(process): State<Arc<Process>>,
    Path(id): Path<String>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Result<Response, Refusal> {
    let tenant = his_tenant(&who, &asked(&id, &pairs, &["tenant"])?)?;
    let (of, name) = (tenant.clone(), id.clone());
    let counters = process.ask_lanes(move |view| view.swarm(&of, &name)).await??.into_iter().flatten().collect::<Vec<_>>();
    let Rows { rows, more } = match &process.embedded {
        Some(embedded) => read_rows(embedded, vec![prefix("swarm", &tenant, &id)]).await?,
        None => Rows::default(),
    };
    if counters.is_empty() && rows.is_empty() {
        let of = if tenant.is_empty() { "; of a swarm with a tenant: give tenant, too" } else { "" };
        let message = "no calls of a swarm of this name are counted here; with several processes, another one may have some";
        return Err(answer::error(StatusCode::NOT_FOUND, "no_such_swarm", format!("{message}{of}")).into());
    }
    let now = EventTime(clock::now_ms());
    let counters = counters.iter().map(|counter| shown::counter(counter, now)).collect();
    let active = rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect();
    Ok(answer::ok(&api::Swarm { swarm_id: id, counters, active, more }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ROW: &str = r#"{"v":1,"status":"blocked","expires_at":"2026-01-01T00:10:00Z","active":[{"action":"nudge","expires_at":"2026-01-01T00:10:00Z"},{"action":"block","expires_at":"2026-01-01T00:01:00Z"}]}"#;

    fn at(time: &str) -> EventTime {
        EventTime::parse_rfc3339(time).unwrap()
    }

    #[test]
    fn a_block_that_is_over_leaves_its_row_before_the_nudge_beside_it() {
        assert_eq!(as_of(ROW.as_bytes(), at("2026-01-01T00:00:59Z")), ROW);
        let row: Value = serde_json::from_str(&as_of(ROW.as_bytes(), at("2026-01-01T00:01:00Z"))).unwrap();
        assert_eq!((&row["status"], row["active"].as_array().unwrap().len()), (&json!("nudged"), 1));
        assert_eq!(row["active"][0]["action"], "nudge");
        assert!(!is_over(ROW.as_bytes(), at("2026-01-01T00:09:59Z")) && is_over(ROW.as_bytes(), at("2026-01-01T00:10:00Z")));
    }
}
