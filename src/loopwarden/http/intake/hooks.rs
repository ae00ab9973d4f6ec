//! `POST /v1/hooks/{agent}`: what an agent tells its hook, as it is; the answer in the agent's own words.
//!
//! Every answer is a 200, empty where there is no opinion. What cannot be understood stops nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use loopwarden_core::event::Reason;
use loopwarden_hooks::{BODY_BYTES_MAX, contract, read, write};
use loopwarden_log::clock::Stopwatch;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::clock;
use crate::http::access::principal::Principal;
use crate::http::answer;
use crate::http::answer::Refusal;
use crate::http::check::{Desk, refused};
use crate::http::shared::Shared;

/// Wait for a complete body: an agent waits for the answer, and gave up long before.
const BODY_WAIT: Duration = Duration::from_secs(10);

/// What the address says besides the agent.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    /// The event, for agents whose bodies do not name it.
    hook: Option<String>,
}

/// Answers on the listener of a process that has a log of its own.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
    Query(asked): Query<Asked>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let desk = shared.desk.as_ref().ok_or_else(answer::embedded_only)?;
    respond((desk, &who), (&agent, &asked), &headers, body).await
}

/// Reads, asks the guard, writes.
pub(crate) async fn respond(
    (desk, who): (&Desk, &Principal),
    (agent, asked): (&str, &Asked),
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let since = Stopwatch::start();
    let contract = contract(agent).ok_or_else(|| {
        answer::error(StatusCode::NOT_FOUND, "unknown_agent", "no agent of this name; loopwarden hook install --help lists them")
    })?;
    let (body, _memory) = collect(desk, headers, body).await?;
    let heard = read(contract, &body, asked.hook.as_deref(), fresh());
    drop(body);
    let check = match heard.check().map(|check| desk.admitted(who, check)) {
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
    Ok(answer::with_type(StatusCode::OK, "application/json", write(contract, &heard, decided.as_ref())))
}

/// The body, as far as its bound and the memory for all bodies allow. A file that an agent writes is longer than an event may be.
pub(crate) async fn collect(
    desk: &Desk,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let bytes_max = announced.unwrap_or_else(|| desk.event_bytes_max());
    if bytes_max > BODY_BYTES_MAX {
        let message = format!("a body may have {BODY_BYTES_MAX} bytes");
        return Err(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).into());
    }
    let units = bytes_max.div_ceil(desk.event_bytes_max().max(1)).max(1);
    let memory = (0..units).map(|_| desk.body_permit()).collect::<Option<Vec<_>>>().ok_or_else(answer::busy)?;
    let whole = match timeout(BODY_WAIT, axum::body::to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => bytes.to_vec(),
        Ok(Err(_)) => return Err(answer::bad_request("the body ended early, or is longer than it said").into()),
        Err(_) => return Err(answer::error(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time").into()),
    };
    Ok((whole, memory))
}

/// A number that no other message got, in this process or in one before it.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFFF;
    (clock::now_ms().unsigned_abs() << 16) | number
}
