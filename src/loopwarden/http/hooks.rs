//! `POST /v1/hooks/{agent}`: what an agent tells its hook, as it is; the answer in the agent's own words.
//!
//! Every answer is a 200, empty where there is no opinion. What cannot be understood stops nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use loopwarden_hooks::{contract, read, write};
use loopwarden_log::clock::Stopwatch;
use serde::Deserialize;

use crate::clock;
use crate::http::answer::Refusal;
use crate::http::shared::Shared;
use crate::http::{answer, events};

/// What the address says besides the agent.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    /// The event, for agents whose bodies do not name it.
    hook: Option<String>,
}

/// Answers.
pub(super) async fn post(
    State(shared): State<Arc<Shared>>,
    Path(agent): Path<String>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let since = Stopwatch::start();
    let desk = shared.desk.as_ref().ok_or_else(answer::embedded_only)?;
    let contract = contract(&agent).ok_or_else(|| {
        answer::error(StatusCode::NOT_FOUND, "unknown_agent", "no agent of this name; loopwarden hook install --help lists them")
    })?;
    let (body, _memory) = events::collect(&shared, &headers, body).await?;
    let heard = read(contract, &body, asked.hook.as_deref(), fresh());
    drop(body);
    let decided = match heard.check() {
        // An event that the guard cannot take is the agent's to make, and no reason to keep it waiting.
        Some(check) => desk.answer(check, since).await.ok(),
        None => None,
    };
    Ok(answer::with_type(StatusCode::OK, "application/json", write(contract, &heard, decided.as_ref())))
}

/// A number that no other message got, in this process or in one before it.
fn fresh() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) & 0xFFFF;
    (clock::now_ms().unsigned_abs() << 16) | number
}
