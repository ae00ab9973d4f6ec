//! Health, metrics, settings, tasks; health and metrics of a guard beside an agent.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, body::Body, response::Response};
use loopwarden_core::limits;
use loopwarden_lane::Numbered;
use serde_json::{Value, json};

use crate::http::access::principal::{Principal, Role, Roles};
use crate::http::views::{query, state};
use crate::http::{Probe, ProcessStatus, answer};
use crate::{
    http::answer::Refusal, http::check::Desk, http::listener::body::BodyLimit, http::shared::Process, http::shared::Sidecar,
    http::views::query::Pairs, operate::api, operate::shown,
};

/// Longest log filter. Bytes.
const FILTER_BYTES_MAX: usize = 4_096;

type Parameters = Query<BTreeMap<String, String>>;

/// Whether each lane turns.
pub(crate) async fn livez(State(process): State<Arc<Process>>, Query(query): Parameters) -> Response {
    probe(&process.status.live(), &query)
}

/// Whether it takes its share.
pub(crate) async fn readyz(State(process): State<Arc<Process>>, Query(query): Parameters) -> Response {
    probe(&process.status.ready(), &query)
}

/// Whether every task was restored once.
pub(crate) async fn startupz(State(process): State<Arc<Process>>, Query(query): Parameters) -> Response {
    probe(&process.status.started(), &query)
}

/// `ok`, or what is wrong; everything with `?verbose`.
fn probe(probe: &Probe, query: &BTreeMap<String, String>) -> Response {
    let (status, word) = if probe.is_ok() { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ok") };
    let mut text = String::new();
    for (what, found) in &probe.checks {
        // Writing to a string does not fail.
        let _ = match found {
            Ok(()) if !query.contains_key("verbose") => Ok(()),
            Ok(()) => writeln!(text, "[+] {what}"),
            Err(why) => writeln!(text, "[-] {what}: {why}"),
        };
    }
    text.push_str(word);
    text.push('\n');
    answer::text(status, text)
}

type Answer = Result<Response, Refusal>;

/// OpenMetrics.
pub(crate) async fn metrics(State(process): State<Arc<Process>>) -> Answer {
    let answered = process.shared.counts.answered();
    let readers = limits::HTTP_STREAMS_MAX.saturating_sub(process.streams.available_permits()) as u64;
    let guard = process.shared.desk.as_deref().map(Desk::report);
    let text = process.ask(move |status| status.metrics(answered, readers, guard)).await?;
    Ok(answer::open_metrics(text))
}

/// Version, revision, policy.
pub(crate) async fn version(State(process): State<Arc<Process>>) -> Response {
    answer::ok(&process.status.version())
}

/// Settings in force.
pub(crate) async fn config(State(process): State<Arc<Process>>) -> Answer {
    Ok(answer::ok(&process.ask(<dyn ProcessStatus>::config).await?))
}

/// The policy in force.
pub(crate) async fn policy(State(process): State<Arc<Process>>) -> Answer {
    Ok(answer::ok(&process.ask(<dyn ProcessStatus>::policy).await?))
}

/// The log filter in force.
pub(crate) async fn log_filter(State(process): State<Arc<Process>>) -> Response {
    answer::ok(&json!({ "filter": process.status.log_filter() }))
}

/// Puts another log filter in force: its text, or `{"filter":"…"}`.
pub(crate) async fn set_log_filter(State(process): State<Arc<Process>>, headers: HeaderMap, body: Body) -> Response {
    let limit = BodyLimit { bytes_max: FILTER_BYTES_MAX, what: "a filter", advice: "" };
    let Ok((bytes, _memory)) = process.shared.bodies.collect(&headers, body, limit).await else {
        return answer::bad_request(format!("a filter has at most {FILTER_BYTES_MAX} bytes"));
    };
    let text = String::from_utf8_lossy(&bytes);
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    let filter = match &parsed {
        Some(Value::Object(object)) => object.get("filter").and_then(Value::as_str).unwrap_or_default(),
        Some(Value::String(filter)) => filter,
        _ => text.trim(),
    };
    if filter.is_empty() {
        return answer::bad_request("the body is a filter, as info or warn,loopwarden::task=debug");
    }
    // It goes into a log line of its own.
    if filter.chars().any(char::is_control) {
        return answer::bad_request("a filter is one line without control characters");
    }
    match process.status.set_log_filter(filter) {
        Ok(()) => answer::ok(&json!({ "filter": process.status.log_filter() })),
        Err(why) => answer::bad_request(why),
    }
}

/// What the live page shows: numbers, and what is in force; with Kafka, where there is no feed, the last commands of this process.
pub(crate) async fn overview(
    State(process): State<Arc<Process>>,
    Extension(who): Extension<Principal>,
    Query(pairs): Pairs,
) -> Answer {
    let query = query::Parameters::of(&pairs, &["after"]).map_err(answer::bad_request)?;
    let Ok(after) = query.get("after").map_or(Ok(0), str::parse::<u64>) else {
        return Err(answer::bad_request("after is the number of a command").into());
    };
    let (mut shown, (recent, last)) = process.ask(move |status| (status.overview(), status.recent(after))).await?;
    let is_operator = who.roles.meet(Roles::of(&[Role::Operator]));
    shown.may_act = process.expect_acts().is_ok() && is_operator;
    shown.may_read = who.roles.meet(Roles::of(&[Role::Reader]));
    shown.guard = process.shared.desk.as_deref().map(Desk::report).map(|guard| api::Guarded {
        agents: guard.counts.asking,
        checks: guard.counts.allowed + guard.counts.spoken + guard.counts.denied,
        blocks_obeyed: guard.counts.refused,
        calls_in_spite: guard.counts.in_spite,
        nudges_delivered: guard.counts.nudges_delivered,
        nudges_unheeded: guard.counts.nudges_unheeded,
    });
    let rows = if let Some(embedded) = &process.embedded {
        Some(state::read_rows(embedded, vec![String::new()]).await?)
    } else {
        // A lane that is busy for long says nothing: that is not the same as that nothing is in force.
        let found = process.ask_lanes(|view| view.in_force(limits::HTTP_ROWS_MAX)).await?;
        found.ok().map(|found| state::Rows::of_lanes(&found.into_iter().sum()))
    };
    shown.active_more = rows.as_ref().is_some_and(|found| found.more);
    shown.active = rows.map(|found| found.rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect());
    if let Some(embedded) = &process.embedded {
        shown.commands_end = Some(*embedded.commands_end.borrow());
    } else {
        let command = |(_, command): Numbered| serde_json::from_slice::<Value>(&command).ok();
        shown.recent = Some(recent.into_iter().filter_map(command).collect());
        shown.recent_last = Some(last);
    }
    Ok(answer::ok(&shown))
}

/// Every task of this process.
pub(crate) async fn tasks(State(process): State<Arc<Process>>) -> Answer {
    let tasks = process.ask(<dyn ProcessStatus>::tasks).await?;
    Ok(answer::ok(&api::Tasks { tasks: tasks.iter().map(|(task, lane, lag)| shown::task(task, *lane, *lag)).collect() }))
}

/// One of them.
pub(crate) async fn task(State(process): State<Arc<Process>>, Path((stage, partition)): Path<(String, String)>) -> Answer {
    let name = format!("{stage}/{partition}");
    let tasks = process.ask(<dyn ProcessStatus>::tasks).await?;
    let found = tasks.iter().find(|(task, ..)| task.id.to_string() == name);
    let (task, lane, lag) = found.ok_or_else(|| {
        answer::error(StatusCode::NOT_FOUND, "no_such_task", "this process has no such task; /tasks lists those it has")
    })?;
    Ok(answer::ok(&shown::task(task, *lane, *lag)))
}

/// A guard beside an agent answers: that is all there is to it.
pub(crate) async fn guard_livez() -> Response {
    answer::text(StatusCode::OK, "ok\n")
}

/// Whether its verdicts are of now.
pub(crate) async fn guard_readyz(State(sidecar): State<Arc<Sidecar>>) -> Response {
    if sidecar.desk.is_fresh() {
        answer::text(StatusCode::OK, "ok\n")
    } else {
        answer::text(StatusCode::SERVICE_UNAVAILABLE, "no fresh verdicts: every call is let through\n")
    }
}

/// Its metrics, as OpenMetrics.
pub(crate) async fn guard_metrics(State(sidecar): State<Arc<Sidecar>>) -> Response {
    answer::open_metrics((sidecar.metrics)())
}
