//! `POST /v1/events`: one event or a line each, answered once they are durable.
//!
//! Each line is decoded for the answer. What is no event is named there and goes nowhere: its sender knows, and a flood of it stops
//! no task.

use std::{borrow::Cow, sync::Arc};

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::{Extension, body::Body, response::Response};
use loopwarden_core::event::{EventKind, EventTime, Header, Reason, RecordMeta, RecordOffset, Rejected, allowed, decode};
use loopwarden_sources::cloudevents::{self, Transport};
use loopwarden_sources::{Grant, Made, NATIVE_FORM, Senders, mapping};
use serde_json::{Value, json};

use crate::http::intake::durable::{Keyed, append, durable};
use crate::{clock, limits};
use crate::{
    http::access::principal::Principal, http::answer, http::answer::Refusal, http::backlog::tenant_of,
    http::listener::body::BodyLimit, http::listener::connection::Peer, http::shared::Process,
};

/// Longest header that is carried along. Bytes.
const TRACEPARENT_BYTES_MAX: usize = 128;

/// What to do about an event of a kind that its sender may not send.
const NOT_PERMITTED: &str =
    "a reset, stop, release or answer needs a token with the role operator, any other event one with the role source ([[token]])";
/// What to do about an event of a tenant that is not its sender's.
const FOREIGN_TENANT: &str =
    "the token is for other tenants; tenant must be one of its own, and can be left out where there is one only";

/// How a body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One event, or lines where it is none.
    Json,
    /// A line each.
    Lines,
    /// CloudEvents in one of their modes: the headers say which.
    CloudEvents,
}

/// Answers.
pub(crate) async fn post(
    State(process): State<Arc<Process>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let log = process.log()?;
    let form = form(&headers)?;
    let (body, memory) = process.shared.bodies.collect(&headers, body, BodyLimit::OF_EVENTS).await?;
    let traceparent = headers.get("traceparent").map(|value| value.as_bytes().to_vec());
    let traceparent = traceparent.filter(|value| value.len() <= TRACEPARENT_BYTES_MAX);
    let about = (form == Form::CloudEvents).then_some(headers);
    let process_too = Arc::clone(&process);
    let appended = answer::blocking(&log.appends, move || {
        let (process, _memory) = (process_too, memory);
        let headers: Vec<Header<'_>> = traceparent.iter().map(|value| ("traceparent", Some(value.as_slice()))).collect();
        let now_ms = clock::now_ms();
        let sorted = match &about {
            Some(about) => cloud_events(&process, &who, about, &body, now_ms)?,
            None => sort((&process, &who.grant()), form, &body, &headers, now_ms)?,
        };
        process.shared.quality.count(&sorted.senders);
        if sorted.events.is_empty() {
            return Ok::<_, Refusal>((0, None, sorted.rejected, sorted.left_out));
        }
        let written = append(process.log()?, &sorted.events, &headers, (peer.ip, now_ms))?;
        let ended = sorted.events.iter().filter_map(|event| event.ends_call_of.map(|source| (event.key.as_str(), source)));
        process.shared.quality.note(ended);
        let acts = sorted.events.iter().filter(|event| event.is_act).count();
        if acts > 0 {
            tracing::info!(actor = &*who.name, acts, "an operator acts: reset, stop or release");
        }
        Ok((sorted.events.len(), Some(written), sorted.rejected, sorted.left_out))
    });
    let (accepted, written, rejected, left_out) = appended.await??;
    if let Some(written) = written {
        durable(log, written).await?;
    }
    // Whoever looks at the status only must not take a lost event for an accepted one.
    let is_lost = accepted == 0 && left_out == 0;
    let status = if is_lost { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::ACCEPTED };
    let mut told = json!({ "accepted": accepted, "rejected": rejected });
    if let (true, Some(told)) = (left_out > 0, told.as_object_mut()) {
        told.insert("left_out".to_owned(), left_out.into());
    }
    Ok(answer::json(status, &told))
}

fn form(headers: &HeaderMap) -> Result<Form, Refusal> {
    let refuse = |message: &str| Err(answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message).into());
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return refuse("a compressed body is not read");
    }
    let media = headers.get(header::CONTENT_TYPE).map_or("application/json", |media| media.to_str().unwrap_or_default());
    let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    // In binary mode the type is that of the data.
    let is_binary = ["ce-specversion", "ce-id", "ce-source", "ce-type"].iter().all(|name| headers.contains_key(*name));
    match media.as_str() {
        "application/cloudevents+json" | "application/cloudevents-batch+json" => Ok(Form::CloudEvents),
        "application/json" if is_binary => Ok(Form::CloudEvents),
        "application/json" => Ok(Form::Json),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json-lines" => Ok(Form::Lines),
        _ => refuse(
            "content-type must be application/json (one event), application/x-ndjson (one event a line), or that of CloudEvents in JSON",
        ),
    }
}

/// Events with their keys, and what is none.
#[derive(Default)]
struct Sorted<'a> {
    events: Vec<Keyed<'a>>,
    rejected: Vec<Value>,
    /// Records that the filter of the mapping leaves out.
    left_out: usize,
    /// Who sent what is no native event.
    senders: Senders,
}

impl<'a> Sorted<'a> {
    fn add(&mut self, found: Option<Keyed<'a>>) {
        match found {
            Some(event) => self.events.push(event),
            None => self.left_out += 1,
        }
    }
}

fn sort<'a>(
    (process, grant): (&Process, &Grant),
    form: Form,
    body: &'a [u8],
    headers: &[Header<'a>],
    now_ms: i64,
) -> Result<Sorted<'a>, Refusal> {
    let event_bytes_max = process.shared.event_bytes_max;
    let meta = RecordMeta {
        topic: &process.topic,
        partition: 0,
        offset: RecordOffset(0),
        timestamp: EventTime(now_ms),
        key: None,
        headers: headers.to_vec(),
        value_bytes_max: event_bytes_max,
    };
    let mut senders = Senders::default();
    let mut read = |value: &'a [u8]| -> Result<Option<Keyed<'a>>, Rejected> {
        let rejected = match decode(Some(value), &meta) {
            Ok(event) => {
                let ends_call_of = matches!(event.kind, EventKind::Tool(..) | EventKind::ToolResult(_)).then_some(NATIVE_FORM);
                let is_act = event.kind.is_act();
                let admitted = grant.admit(&event, value, &meta)?;
                // A grant may fill in the tenant.
                let tenant = match &admitted {
                    Some(json) => tenant_of(json),
                    None => event.tenant.unwrap_or_default().into_owned(),
                };
                let value = admitted.map_or(Cow::Borrowed(value), Cow::Owned);
                return Ok(Some(Keyed { key: event.session_id.into_owned(), tenant, value, ends_call_of, is_act }));
            }
            Err(rejected) => rejected,
        };
        match process.mapping.as_ref().filter(|mapping| mapping.is_foreign(value)) {
            Some(mapping) => {
                let made = mapping.map(value, EventTime(now_ms), event_bytes_max);
                senders.count((mapping::FORM, ""), Made::became(&made));
                let Some(mut made) = made? else { return Ok(None) };
                made.json = grant.admitted(made.json, &meta)?;
                Ok(Some(Keyed::from(made)))
            }
            None => Err(rejected),
        }
    };
    let mut sorted = Sorted::default();
    // Some editors and shells begin each file with it.
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    if form == Form::Json {
        let body = body.trim_ascii();
        match read(body) {
            Ok(found) => {
                sorted.add(found);
                return Ok(Sorted { senders, ..sorted });
            }
            // Lines under the name of one document are common; one broken document over several lines is one.
            Err(rejected) if !is_lines(body, &rejected) => {
                sorted.rejected.push(rejection(0, &rejected, event_bytes_max));
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
        match read(line) {
            Ok(found) => sorted.add(found),
            Err(rejected) => sorted.rejected.push(rejection(index, &rejected, event_bytes_max)),
        }
    }
    let is_empty = sorted.events.is_empty() && sorted.rejected.is_empty() && sorted.left_out == 0;
    if is_empty { Err(empty()) } else { Ok(Sorted { senders, ..sorted }) }
}

/// The events of CloudEvents, with what is none.
fn cloud_events(
    process: &Process,
    who: &Principal,
    headers: &HeaderMap,
    body: &[u8],
    now_ms: i64,
) -> Result<Sorted<'static>, Refusal> {
    let event_bytes_max = process.shared.event_bytes_max;
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let now = EventTime(now_ms);
    let read = cloudevents::read(Transport::Http, &headers, body, process.mapping.as_ref(), now, event_bytes_max);
    let batch = read.map_err(|fault| answer::error(StatusCode::BAD_REQUEST, fault.code(), fault.to_string()))?;
    let mut batch = batch.ok_or_else(empty)?;
    if batch.records > limits::HTTP_EVENTS_MAX {
        let message = format!("a request may have {} events; send several", limits::HTTP_EVENTS_MAX);
        return Err(answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_many_events", message).into());
    }
    who.admit_batch(&mut batch, now, event_bytes_max);
    let rejected = batch.refused.iter().map(|refused| rejection(refused.index, &refused.rejected, event_bytes_max));
    let rejected = rejected.collect();
    let events = batch.events.into_iter().map(Keyed::from).collect();
    Ok(Sorted { events, rejected, left_out: batch.ignored, senders: batch.senders })
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
        Reason::NotPermitted => Some(NOT_PERMITTED.to_owned()),
        Reason::ForeignTenant => Some(FOREIGN_TENANT.to_owned()),
        Reason::TooLarge => Some(format!("an event may have {event_bytes_max} bytes (limits.record_bytes_max)")),
        _ => allowed(rejected),
    };
    if let (Some(message), Some(object)) = (message, value.as_object_mut()) {
        object.insert("message".to_owned(), message.into());
    }
    value
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
