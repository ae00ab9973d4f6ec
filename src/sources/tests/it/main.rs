//! Foreign forms as strangers send them: recorded, made up, broken.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a wrong index or an absent value fails the test; what a fuzzer found is worth a line"
)]

mod cloudevents;
mod conventions;
mod hostile;
mod mapping;
mod oracle;
#[path = "../../../../tests/common/random.rs"]
mod random;
mod recorded;
mod rules;

use loopwarden_core::event::EventTime;
use loopwarden_sources::otlp::{Form, Signal, read};
use loopwarden_sources::{Batch, Fault, Sessions};
use serde_json::{Value, json};

/// The bound of an event.
const EVENT_BYTES_MAX: usize = 256 * 1024;
/// When records arrive: after everything that is reported in them.
const NOW: EventTime = EventTime(1_795_700_000_000);

/// Reads a body with what was remembered.
fn with(sessions: &mut Sessions, signal: Signal, form: Form, body: &[u8]) -> Result<Batch, Fault> {
    let batch = read((signal, form), body, sessions, NOW, EVENT_BYTES_MAX)?;
    assert_eq!(batch.records, batch.events.len() + batch.refused.len() + batch.ignored, "a record was lost or counted twice");
    Ok(batch)
}

/// Reads a JSON body.
fn of_json(signal: Signal, body: &Value) -> Batch {
    with(&mut Sessions::default(), signal, Form::Json, body.to_string().as_bytes()).unwrap()
}

/// Events as JSON.
fn events(batch: &Batch) -> Vec<Value> {
    batch.events.iter().map(|made| serde_json::from_slice(&made.json).unwrap()).collect()
}

/// An attribute with a text, a number, a flag, or what else JSON has.
fn attribute((key, value): (&str, &Value)) -> Value {
    json!({ "key": key, "value": any(value) })
}

fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_i64() => json!({ "intValue": number.to_string() }),
        Value::Number(number) => json!({ "doubleValue": number }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Array(items) => json!({ "arrayValue": { "values": items.iter().map(any).collect::<Vec<_>>() } }),
        Value::Object(fields) => json!({ "kvlistValue": { "values": attributes(&Value::Object(fields.clone())) } }),
    }
}

fn attributes(of: &Value) -> Vec<Value> {
    of.as_object().into_iter().flatten().map(|(key, value)| attribute((key, value))).collect()
}

/// A span of trace `a…`, number `number`, that ends `number` seconds after a fixed moment.
fn span(number: u8, name: &str, of: &Value) -> Value {
    json!({
        "traceId": "a".repeat(32), "spanId": format!("{number:016x}"), "name": name, "kind": 1,
        "startTimeUnixNano": "1795613167000000000",
        "endTimeUnixNano": format!("{}000000000", 1_795_613_167_u64 + u64::from(number)),
        "attributes": attributes(of), "status": {},
    })
}

/// Spans of one scope.
fn traces(spans: &[Value]) -> Value {
    json!({ "resourceSpans": [{ "resource": { "attributes": [] }, "scopeSpans": [{ "scope": { "name": "test" }, "spans": spans }] }] })
}

/// Log records of one scope.
fn logs(service: &str, records: &[Value]) -> Value {
    let resource = json!({ "attributes": attributes(&json!({ "service.name": service })) });
    json!({ "resourceLogs": [{ "resource": resource, "scopeLogs": [{ "logRecords": records }] }] })
}

/// A log record.
fn log(number: u8, of: &Value) -> Value {
    json!({ "timeUnixNano": format!("{}000000000", 1_795_613_167_u64 + u64::from(number)), "attributes": attributes(of) })
}
