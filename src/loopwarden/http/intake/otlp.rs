//! `POST /v1/traces`, `/v1/logs`, `/v1/metrics`: OTLP over HTTP. Calls become events and go the way of `POST /v1/events`, those of a guard
//! the way of its checks' events. Metrics are taken and dropped, since an exporter reports an error where it is refused.

use std::{net::IpAddr, sync::Arc};

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, post};
use axum::{Extension, body::Body};
use loopwarden_core::event::EventTime;
use loopwarden_guard::Record;
use loopwarden_sources::otlp::{Form, Signal, failure, success};
use loopwarden_sources::{Batch, Fault, Made};

use crate::http::intake::durable::{Keyed, append, durable};
use crate::http::listener::body::{BodyLimit, Memory};
use crate::http::shared::{Process, Shared, Sidecar};
use crate::{clock, http::access::principal::Principal, http::answer, http::answer::Refusal, http::listener::connection::Peer};

/// Answers exports to a process, whose log takes their events. Without a signal they are of metrics.
pub(crate) fn to_log(signal: Option<Signal>) -> MethodRouter<Arc<Process>> {
    let answer = async move |State(process): State<Arc<Process>>,
                             ConnectInfo(peer): ConnectInfo<Peer>,
                             Extension(who): Extension<Principal>,
                             headers: HeaderMap,
                             body: Body| {
        match form(&headers) {
            Ok(form) => answered(form, signal, append_all((&process, who, peer.ip), (signal, form), &headers, body).await),
            Err(refusal) => refusal.into_response(),
        }
    };
    post(answer)
}

/// Answers exports to a guard, whose queue takes their events. Where there is no room for all of them, the exporter sends them again.
pub(crate) fn to_queue(signal: Option<Signal>) -> MethodRouter<Arc<Sidecar>> {
    let answer =
        async move |State(sidecar): State<Arc<Sidecar>>, Extension(who): Extension<Principal>, headers: HeaderMap, body: Body| {
            match form(&headers) {
                Ok(form) => answered(form, signal, hand_on((&sidecar, who), (signal, form), &headers, body).await),
                Err(refusal) => refusal.into_response(),
            }
        };
    post(answer)
}

/// An export as it was sent.
struct Export {
    what: (Signal, Form),
    is_gzip: bool,
    body: Vec<u8>,
    _memory: Memory,
}

impl Export {
    /// Takes a body. None where it is of metrics, which are dropped.
    async fn collect(
        shared: &Shared,
        (signal, form): (Option<Signal>, Form),
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Option<Self>, Refusal> {
        let is_gzip = is_gzip(headers)?;
        let (body, memory) = shared.bodies.collect(headers, body, BodyLimit::OF_EVENTS).await?;
        Ok(signal.map(|signal| Self { what: (signal, form), is_gzip, body, _memory: memory }))
    }

    /// Its events, as far as who sends them may report them.
    fn read(&self, shared: &Shared, who: &Principal, now: EventTime) -> Result<Batch, Refusal> {
        let Shared { exports, event_bytes_max, quality, .. } = shared;
        let read = exports.read(self.what, (&self.body, self.is_gzip), now, *event_bytes_max, quality);
        let mut batch = read.map_err(unreadable)?;
        who.admit_batch(&mut batch, now, *event_bytes_max);
        Ok(batch)
    }
}

/// Its events are on disk.
async fn append_all(
    (process, who, ip): (&Arc<Process>, Principal, IpAddr),
    what: (Option<Signal>, Form),
    headers: &HeaderMap,
    body: Body,
) -> Result<Batch, Refusal> {
    let log = process.log()?;
    let Some(export) = Export::collect(&process.shared, what, headers, body).await? else { return Ok(Batch::default()) };
    let process = Arc::clone(process);
    let appended = answer::blocking(&log.appends, move || {
        let now_ms = clock::now_ms();
        let mut batch = export.read(&process.shared, &who, EventTime(now_ms))?;
        let events: Vec<Keyed<'_>> = std::mem::take(&mut batch.events).into_iter().map(Keyed::from).collect();
        let written = if events.is_empty() { None } else { Some(append(process.log()?, &events, &[], (ip, now_ms))?) };
        Ok::<_, Refusal>((batch, written))
    });
    let (batch, written) = appended.await??;
    if let Some(written) = written {
        durable(log, written).await?;
    }
    Ok(batch)
}

/// Its events wait to be sent on. Checks are answered meanwhile.
async fn hand_on(
    (sidecar, who): (&Arc<Sidecar>, Principal),
    what: (Option<Signal>, Form),
    headers: &HeaderMap,
    body: Body,
) -> Result<Batch, Refusal> {
    let Some(export) = Export::collect(&sidecar.shared, what, headers, body).await? else { return Ok(Batch::default()) };
    let (shared, desk) = (Arc::clone(&sidecar.shared), Arc::clone(&sidecar.desk));
    let handed_on = answer::blocking(&sidecar.reads, move || {
        let mut batch = export.read(&shared, &who, EventTime(clock::now_ms()))?;
        let record = |made: Made| Record {
            session_id: made.session_id,
            // It was read as JSON, which is UTF-8.
            event: String::from_utf8(made.json).unwrap_or_default(),
        };
        let records: Vec<Record> = std::mem::take(&mut batch.events).into_iter().map(record).collect();
        desk.hand_on(&records).map_err(|_| answer::busy())?;
        Ok::<_, Refusal>(batch)
    });
    handed_on.await?
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
