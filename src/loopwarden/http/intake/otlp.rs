//! `POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP. Calls become events and go the way of `POST /v1/events`, those of a guard
//! the way of its checks' events. Metrics are taken and dropped, since an exporter reports an error where it is refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, post};
use loopwarden_core::event::EventTime;
use loopwarden_guard::Record;
use loopwarden_ingest::otlp::{Form, Signal, failure, success};
use loopwarden_ingest::{Batch, Fault, Made};
use loopwarden_log::embedded::Append;

use crate::clock;
use crate::http::access::principal::Principal;
use crate::http::answer;
use crate::http::answer::Refusal;
use crate::http::backlog::{Sender, tenant_of};
use crate::http::check::Desk;
use crate::http::intake::durable::{append, durable};
use crate::http::intake::hooks;
use crate::http::intake::otlp_sessions::Exports;
use crate::http::listener::body::collect;
use crate::http::listener::connection::Peer;
use crate::http::shared::Shared;

/// What answers exports of a signal; without one they are of metrics.
pub(crate) fn exports(signal: Option<Signal>) -> MethodRouter<Arc<Shared>> {
    let answer = async move |State(shared): State<Arc<Shared>>,
                             ConnectInfo(peer): ConnectInfo<Peer>,
                             Extension(who): Extension<Principal>,
                             headers: HeaderMap,
                             body: Body| {
        match form(&headers) {
            Ok(form) => answered(form, signal, take((&shared, who), signal, (form, peer.ip), &headers, body).await),
            Err(refusal) => refusal.into_response(),
        }
    };
    post(answer)
}

/// Answers an export on the listener of a guard. Where there is no room for all of its events, the exporter sends it again.
pub(crate) async fn beside(
    at: (Arc<Desk>, Arc<Exports>, Principal),
    signal: Option<Signal>,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    match form(headers) {
        Ok(form) => answered(form, signal, hand_on(at, signal, form, headers, body).await),
        Err(refusal) => refusal.into_response(),
    }
}

async fn hand_on(
    (desk, exports, who): (Arc<Desk>, Arc<Exports>, Principal),
    signal: Option<Signal>,
    form: Form,
    headers: &HeaderMap,
    body: Body,
) -> Result<Batch, Refusal> {
    let is_gzip = is_gzip(headers)?;
    let (body, memory) = hooks::collect(&desk, headers, body).await?;
    let Some(signal) = signal else { return Ok(Batch::default()) };
    // Checks are answered meanwhile.
    let read = tokio::task::spawn_blocking(move || {
        let _memory = memory;
        let now = EventTime(clock::now_ms());
        let read = exports.read((signal, form), (&body, is_gzip), now, desk.event_bytes_max(), desk.quality());
        let mut batch = read.map_err(unreadable)?;
        who.admit_batch(&mut batch, now, desk.event_bytes_max());
        let record = |made: Made| Record {
            session_id: made.session_id,
            // It was read as JSON, which is UTF-8.
            event: String::from_utf8(made.json).unwrap_or_default(),
        };
        let records: Vec<Record> = std::mem::take(&mut batch.events).into_iter().map(record).collect();
        desk.hand_on(&records).map_err(|_| answer::busy())?;
        Ok::<_, Refusal>(batch)
    });
    let gone = |_| answer::error(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the export could not be read");
    read.await.map_err(gone)?
}

fn answered(form: Form, signal: Option<Signal>, taken: Result<Batch, Refusal>) -> Response {
    match taken {
        Ok(batch) => {
            let body = success(form, signal.unwrap_or(Signal::Traces), &batch);
            answer::with_type(StatusCode::OK, media(form), body)
        }
        Err(refusal) => in_form(form, &refusal.into_response()),
    }
}

const fn media(form: Form) -> &'static str {
    match form {
        Form::Protobuf => "application/x-protobuf",
        Form::Json => "application/json",
    }
}

fn form(headers: &HeaderMap) -> Result<Form, Refusal> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    match media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" => Ok(Form::Protobuf),
        "application/json" => Ok(Form::Json),
        _ => {
            let message = "content-type must be application/x-protobuf or application/json";
            Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).into())
        }
    }
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"") => Ok(false),
        Some(encoding) if encoding.eq_ignore_ascii_case(b"gzip") => Ok(true),
        Some(_) => {
            let message = "content-encoding must be gzip, or absent";
            Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding", message).into())
        }
    }
}

/// Takes a body; its events are on disk.
async fn take(
    (shared, who): (&Arc<Shared>, Principal),
    signal: Option<Signal>,
    (form, ip): (Form, IpAddr),
    headers: &HeaderMap,
    body: Body,
) -> Result<Batch, Refusal> {
    let embedded = shared.embedded.as_ref().ok_or_else(answer::embedded_only)?;
    let is_gzip = is_gzip(headers)?;
    let (body, memory) = collect(shared, headers, body).await?;
    let Some(signal) = signal else { return Ok(Batch::default()) };
    let (broker, backlog, shared_too) = (embedded.broker.clone(), Arc::clone(&embedded.backlog), Arc::clone(shared));
    let appended = answer::blocking(&embedded.appends, move || {
        let _memory = memory;
        let now_ms = clock::now_ms();
        let Shared { exports, event_bytes_max, quality, .. } = &*shared_too;
        let read = exports.read((signal, form), (&body, is_gzip), EventTime(now_ms), *event_bytes_max, quality);
        let mut batch = read.map_err(unreadable)?;
        who.admit_batch(&mut batch, EventTime(now_ms), *event_bytes_max);
        let written = {
            let appends: Vec<Append<'_>> = batch
                .events
                .iter()
                .map(|Made { session_id, json, .. }| Append {
                    key: session_id.as_bytes(),
                    value: json,
                    headers: Vec::new(),
                    timestamp_ms: now_ms,
                })
                .collect();
            if appends.is_empty() {
                None
            } else {
                let tenants: Vec<String> = batch.events.iter().map(|made| tenant_of(&made.json)).collect();
                let peer = ip.to_string();
                let senders = batch.events.iter().zip(&tenants);
                let senders = senders.map(|(made, tenant)| (made.session_id.as_str(), Sender { tenant, peer: &peer }));
                Some(append((&broker, &backlog), &appends, senders)?)
            }
        };
        Ok::<_, Refusal>((batch, written))
    });
    let (batch, written) = appended.await??;
    if let Some(written) = written {
        durable(embedded, written).await?;
    }
    Ok(batch)
}

fn unreadable(fault: Fault) -> Response {
    let status = match fault {
        Fault::TooLarge(_) | Fault::TooManyRecords => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    answer::error(status, fault.code(), fault.to_string())
}

/// A refusal as exporters read it: `google.rpc.Status` in the form of the request.
fn in_form(form: Form, response: &Response) -> Response {
    let status = response.status();
    let code = match status {
        StatusCode::NOT_FOUND => 5,
        StatusCode::REQUEST_TIMEOUT => 4,
        StatusCode::TOO_MANY_REQUESTS => 8,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        status if status.is_server_error() => 13,
        _ => 3,
    };
    let message = answer::sentence(response);
    let mut answered = answer::with_type(status, media(form), failure(form, code, message));
    if let Some(seconds) = response.headers().get(header::RETRY_AFTER) {
        answered.headers_mut().insert(header::RETRY_AFTER, seconds.clone());
    }
    answered
}
