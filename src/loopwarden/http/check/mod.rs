//! `POST /v1/check`: may this call run, and what should the model read? The same answers on the embedded log and in a sidecar.
//!
//! Every decision is a 200, and no other status means that a call must not run: whoever cannot read an answer lets it run.

mod beside;
pub(super) mod desk;
mod embedded;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::{Extension, body::Body, extract::State, response::Response};
pub use beside::Send;
pub use desk::Desk;
pub(super) use embedded::{APPENDS, LOOK_UPS};
use loopwarden_core::event::{EventTime, Reason};
use loopwarden_guard::{Answer, BadCheck, Check, Decision, Fail};
use loopwarden_log::clock::Stopwatch;

use crate::{
    clock, http::access::principal::Principal, http::answer, http::answer::Refusal, http::listener::body::BodyLimit,
    http::shared::Shared,
};

/// What an envelope may take besides its event. Bytes.
const ENVELOPE_BYTES_MAX: usize = 16 * 1024;

/// Reads a check, answers it.
pub(super) async fn post(
    State(shared): State<Arc<Shared>>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let desk = shared.desk()?;
    let since = Stopwatch::start();
    if headers.get(header::CONTENT_TYPE).is_some_and(|media| !is_json(media.as_bytes())) {
        let message = "content-type must be application/json";
        return Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).into());
    }
    let limit = BodyLimit { bytes_max: desk.event_bytes_max() + ENVELOPE_BYTES_MAX, what: "a check", advice: "" };
    let (body, _memory) = shared.checks.collect(&headers, body, limit).await?;
    let check = Check::read(&body).and_then(|check| desk.admitted(&who, check)).map_err(|bad| refused(&bad))?;
    drop(body);
    let answer = desk.answer(check, since, "checks").await.map_err(|bad| refused(&bad))?;
    // Its own type, which serialises.
    let text = serde_json::to_string(&answer).unwrap_or_default();
    Ok(holding(answer::json_text(StatusCode::OK, text), Some(&answer)))
}

/// An answer of the guard on its way to a program that has no clock of the day: where it refuses for a stop that fails closed, for how long
/// calls are to be refused where nobody answers any more. Only an answer that was decided with fresh verdicts says so: no other releases.
pub(super) fn holding(mut response: Response, decided: Option<&Answer>) -> Response {
    let stop = decided.filter(|answer| answer.decision == Decision::Deny && answer.fail == Some(Fail::Closed));
    let end = stop.and_then(|answer| EventTime::parse_rfc3339(answer.expires_at.as_deref()?));
    if let Some(left_ms) = end.map(|end| end.0.saturating_sub(clock::now_ms())).filter(|left_ms| *left_ms > 0) {
        response.headers_mut().insert("loopwarden-refuse-for-ms", HeaderValue::from(left_ms));
    }
    if decided.is_some_and(|answer| !answer.state.stale) {
        response.headers_mut().insert("loopwarden-fresh", HeaderValue::from_static("1"));
    }
    response
}

fn is_json(media: &[u8]) -> bool {
    let name = media.split(|byte| *byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// What is wrong with a check, with its place.
pub(super) fn refused(bad: &BadCheck) -> Refusal {
    let what = if bad.pointer.is_empty() { "the body" } else { bad.pointer.as_str() };
    let is_denied = [Reason::NotPermitted, Reason::ForeignTenant].iter().any(|reason| reason.as_str() == bad.code);
    let status = if is_denied { StatusCode::FORBIDDEN } else { StatusCode::BAD_REQUEST };
    answer::problem(status, bad.code, &format!("{what}: {}", bad.code), &bad.pointer).into()
}
