//! `POST /v1/events`: one event or a line each, answered once they are durable.
//!
//! Each line is decoded for the answer. What is no event is named there and goes nowhere: its sender knows, and a flood of it stops
//! no task.

use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt as _;
use loopwarden_core::event::{EventTime, Header, Reason, RecordMeta, RecordOffset, Rejected, allowed, decode};
use loopwarden_log::LogError;
use loopwarden_log::embedded::{Append, Written};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::http::answer;
use crate::http::answer::Refusal;
use crate::http::shared::{Embedded, Shared};
use crate::{clock, limits};

/// Memory for bodies is handed out in these. Bytes.
pub(super) const BODY_UNIT: usize = 64 * 1024;

/// Longest header that is carried along. Bytes.
const TRACEPARENT_BYTES_MAX: usize = 128;

/// How a body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One event, or lines where it is none.
    Json,
    /// A line each.
    Lines,
}

/// Answers.
pub(super) async fn post(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Body) -> Result<Response, Refusal> {
    let embedded = shared.embedded.as_ref().ok_or_else(answer::embedded_only)?;
    let form = form(&headers)?;
    let (body, memory) = collect(&shared, &headers, body).await?;
    let traceparent = headers.get("traceparent").map(|value| value.as_bytes().to_vec());
    let traceparent = traceparent.filter(|value| value.len() <= TRACEPARENT_BYTES_MAX);
    let (broker, shared_too) = (embedded.broker.clone(), Arc::clone(&shared));
    let appended = answer::blocking(&embedded.appends, move || {
        let _memory = memory;
        let headers: Vec<Header<'_>> = traceparent.iter().map(|value| ("traceparent", Some(value.as_slice()))).collect();
        let now_ms = clock::now_ms();
        let sorted = sort(&shared_too, form, &body, &headers, now_ms)?;
        let appends: Vec<Append<'_>> = sorted
            .events
            .iter()
            .map(|(key, value)| Append { key: key.as_bytes(), value, headers: headers.clone(), timestamp_ms: now_ms })
            .collect();
        if appends.is_empty() {
            return Ok::<_, Refusal>((0, None, sorted.rejected));
        }
        let (_, written) = broker.append_unsynced(&appends).map_err(|error| refused(&error))?;
        Ok((appends.len(), Some(written), sorted.rejected))
    });
    let (accepted, written, rejected) = appended.await??;
    if let Some(written) = written {
        durable(embedded, written).await?;
    }
    // Whoever looks at the status only must not take a lost event for an accepted one.
    let status = if accepted == 0 { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::ACCEPTED };
    Ok(answer::json(status, &json!({ "accepted": accepted, "rejected": rejected })))
}

fn form(headers: &HeaderMap) -> Result<Form, Refusal> {
    let refuse = |message: &str| Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).into());
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return refuse("a compressed body is not read");
    }
    let Some(media) = headers.get(header::CONTENT_TYPE) else { return Ok(Form::Json) };
    let media = media.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "application/json" => Ok(Form::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json-lines" => Ok(Form::Lines),
        _ => refuse("content-type must be application/json (one event) or application/x-ndjson (one event a line)"),
    }
}

/// The body, as far as its bound, its deadline and the memory for all bodies allow.
async fn collect(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<(Vec<u8>, Vec<OwnedSemaphorePermit>), Refusal> {
    let too_large = || {
        let message = format!("a body may have {} bytes; send several", limits::HTTP_BODY_BYTES_MAX);
        Refusal::from(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message))
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let is_announced = announced.is_some_and(|length| length > limits::HTTP_BODY_BYTES_MAX);
    // It waits for a word before it sends any of it.
    if is_announced && headers.contains_key(header::EXPECT) {
        return Err(too_large());
    }
    let read = async {
        let (mut bytes, mut memory) = (Vec::new(), Vec::new());
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| answer::bad_request("the body ended early"))?;
            if is_announced || bytes.len() + chunk.len() > limits::HTTP_BODY_BYTES_MAX {
                drop((bytes, memory));
                let _ = timeout(limits::HTTP_BODY_DROP_WAIT, drop_rest(&mut chunks)).await;
                return Err(too_large());
            }
            while memory.len() * BODY_UNIT < bytes.len() + chunk.len() {
                memory.push(Arc::clone(&shared.bodies).try_acquire_owned().map_err(|_| answer::busy())?);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok((bytes, memory))
    };
    let in_time = timeout(limits::HTTP_BODY_WAIT, read).await;
    in_time.unwrap_or_else(|_| Err(answer::error(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not come in time").into()))
}

/// Reads on to the end of a body that nobody wants, or as far as its bounds allow.
async fn drop_rest(chunks: &mut BodyDataStream) {
    let mut left = limits::HTTP_BODY_BYTES_DROPPED;
    while let Some(Ok(chunk)) = chunks.next().await {
        let Some(less) = left.checked_sub(chunk.len()) else { return };
        left = less;
    }
}

/// Events with their keys, and what is none.
struct Sorted<'a> {
    events: Vec<(String, &'a [u8])>,
    rejected: Vec<Value>,
}

fn sort<'a>(shared: &Shared, form: Form, body: &'a [u8], headers: &[Header<'a>], now_ms: i64) -> Result<Sorted<'a>, Refusal> {
    let meta = RecordMeta {
        topic: &shared.topic,
        partition: 0,
        offset: RecordOffset(0),
        timestamp: EventTime(now_ms),
        key: None,
        headers: headers.to_vec(),
        value_bytes_max: shared.event_bytes_max,
    };
    let session_of = |value: &'a [u8]| decode(Some(value), &meta).map(|event| event.session_id.into_owned());
    let mut sorted = Sorted { events: Vec::new(), rejected: Vec::new() };
    // Some editors and shells begin each file with it.
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    if form == Form::Json {
        let body = body.trim_ascii();
        match session_of(body) {
            Ok(session_id) => {
                sorted.events.push((session_id, body));
                return Ok(sorted);
            }
            // Lines under the name of one document are common; one broken document over several lines is one.
            Err(rejected) if !is_lines(body, &rejected) => {
                sorted.rejected.push(rejection(0, &rejected, shared.event_bytes_max));
                return if body.is_empty() { Err(empty()) } else { Ok(sorted) };
            }
            Err(_) => {}
        }
    }
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        if index == limits::HTTP_EVENTS_MAX {
            let message = format!("a request may have {} events; send several", limits::HTTP_EVENTS_MAX);
            return Err(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_many_events", message).into());
        }
        match session_of(line) {
            Ok(session_id) => sorted.events.push((session_id, line)),
            Err(rejected) => sorted.rejected.push(rejection(index, &rejected, shared.event_bytes_max)),
        }
    }
    if sorted.events.is_empty() && sorted.rejected.is_empty() { Err(empty()) } else { Ok(sorted) }
}

fn empty() -> Refusal {
    answer::bad_request("the body holds no event").into()
}

/// Whether a body that is no event by itself looks like one object a line.
fn is_lines(body: &[u8], rejected: &Rejected) -> bool {
    let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let may_be = matches!(rejected.reason, Reason::NotJson | Reason::TooLarge | Reason::NotUtf8);
    may_be && first.len() < body.len() && first.first() == Some(&b'{') && first.last() == Some(&b'}')
}

fn rejection(index: usize, rejected: &Rejected, event_bytes_max: usize) -> Value {
    let mut value = json!({ "index": index, "reason": rejected.reason.as_str() });
    if let (false, Some(object)) = (rejected.field.is_empty(), value.as_object_mut()) {
        object.insert("field".to_owned(), rejected.field.as_str().into());
    }
    let message = match rejected.reason {
        Reason::UnsupportedFormat if rejected.field.is_empty() => {
            Some("one event, or one a line: no array, no envelope around data".to_owned())
        }
        Reason::TooLarge => Some(format!("an event may have {event_bytes_max} bytes (limits.record_bytes_max)")),
        _ => allowed(rejected),
    };
    if let (Some(message), Some(object)) = (message, value.as_object_mut()) {
        object.insert("message".to_owned(), message.into());
    }
    value
}

/// Waits until it is on disk.
async fn durable(embedded: &Embedded, written: Written) -> Result<(), Refusal> {
    let mut synced = embedded.synced.clone();
    let wait = async {
        loop {
            // Seen before it is looked at: a sync in between wakes the wait below.
            synced.mark_unchanged();
            if embedded.broker.wait_synced(written, std::time::Duration::ZERO).map_err(|error| refused(&error))? {
                return Ok(());
            }
            let _ = timeout(std::time::Duration::from_secs(1), synced.changed()).await;
        }
    };
    let in_time = timeout(limits::HTTP_SYNC_WAIT, wait).await;
    in_time.unwrap_or_else(|_| {
        let message = "the disk did not answer in time; send the events again, those that arrived are dropped by their id";
        Err(answer::later(StatusCode::SERVICE_UNAVAILABLE, "not_durable", message, 5).into())
    })
}

fn refused(error: &LogError) -> Refusal {
    let response = match error {
        LogError::Transient(cause) => answer::later(StatusCode::TOO_MANY_REQUESTS, "log_full", cause, 5),
        LogError::OutOfRange(cause) | LogError::Damaged(cause) | LogError::Lost(cause) => {
            answer::error(StatusCode::SERVICE_UNAVAILABLE, "log_failed", cause)
        }
        LogError::Fatal { code, message } => {
            answer::error(StatusCode::SERVICE_UNAVAILABLE, "log_failed", format!("{code}: {message}"))
        }
    };
    response.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_under_the_name_of_one_document_are_told_from_one_broken_document() {
        let not_json = Rejected { reason: Reason::NotJson, field: String::new() };
        assert!(is_lines(b"{\"a\":1}\n{\"b\":", &not_json));
        assert!(!is_lines(b"{\n\"a\":1,}", &not_json));
        assert!(!is_lines(b"{\"a\":}", &not_json));
        let missing = Rejected { reason: Reason::MissingField, field: "/id".to_owned() };
        assert!(!is_lines(b"{\"a\":1}\n{\"b\":2}", &missing));
    }

    #[test]
    fn a_rejection_names_the_field_where_one_is_at_fault() {
        let at = Rejected { reason: Reason::MissingField, field: "/tool".to_owned() };
        assert_eq!(rejection(1, &at, 9).to_string(), r#"{"field":"/tool","index":1,"reason":"missing_field"}"#);
        let whole = Rejected { reason: Reason::NotJson, field: String::new() };
        assert_eq!(rejection(0, &whole, 9).to_string(), r#"{"index":0,"reason":"not_json"}"#);
    }

    #[test]
    fn a_rejection_says_what_would_do() {
        let large = rejection(0, &Rejected { reason: Reason::TooLarge, field: String::new() }, 262_144);
        assert_eq!(large["message"], "an event may have 262144 bytes (limits.record_bytes_max)");
        let envelope = rejection(0, &Rejected { reason: Reason::UnsupportedFormat, field: String::new() }, 9);
        assert_eq!(envelope["message"], "one event, or one a line: no array, no envelope around data");
        let agent = rejection(0, &Rejected { reason: Reason::BadType, field: "/agent".to_owned() }, 9);
        assert_eq!(agent["message"], "an object, as {\"id\": \"…\"}");
    }
}
