//! `POST /v1/hooks/{agent}`: what an agent tells its hook, as it is; the answer in the agent's own words.
//!
//! Every answer is a 200, empty where there is no opinion. What cannot be understood stops nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, body::Body, response::Response};
use loopwarden_core::event::Reason;
use loopwarden_log::clock::Stopwatch;
use loopwarden_sources::agent;
use loopwarden_sources::hook::{BODY_BYTES_MAX, read, write};
use serde::Deserialize;

use crate::http::check::{holding, refused};
use crate::{
    clock, http::access::principal::Principal, http::answer, http::answer::Refusal, http::listener::body::BodyLimit,
    http::shared::Shared,
};

/// What the address says besides the agent.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    /// The event, for agents whose bodies do not name it.
    hook: Option<String>,
}

/// Reads, asks the guard, writes.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(asked): Query<Asked>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let desk = shared.desk()?;
    let since = Stopwatch::start();
    let agent = agent(&name).filter(|agent| agent.hook.is_some()).ok_or_else(|| {
        answer::error(StatusCode::NOT_FOUND, "unknown_agent", "no agent of this name; loopwarden hook install --help lists them")
    })?;
    // A file that an agent writes is longer than an event may be.
    let limit = BodyLimit { bytes_max: BODY_BYTES_MAX, what: "a body", advice: "" };
    let (body, _memory) = shared.checks.collect(&headers, body, limit).await?;
    let heard = read(agent, &body, asked.hook.as_deref(), fresh());
    drop(body);
    let check = match heard.check().map(|check| desk.admitted(&who, check)) {
        // A mistake of who gave the token, which nobody would see otherwise.
        Some(Err(bad)) if bad.code == Reason::ForeignTenant.as_str() => return Err(refused(&bad)),
        Some(Ok(check)) => Some(check),
        Some(Err(_)) | None => None,
    };
    let decided = match check {
        // An event that the guard cannot take is no reason to keep the agent from its call.
        Some(check) => desk.answer(check, since, "hooks").await.ok(),
        None => None,
    };
    let response = answer::with_type(StatusCode::OK, "application/json", write(agent, &heard, decided.as_ref()));
    Ok(holding(response, decided.as_ref()))
}

/// A number that no other message got, in this process or in one before it.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFFF;
    (clock::now_ms().unsigned_abs() << 16) | number
}
