//! A command as a log record of OpenTelemetry: OTLP 1.x over HTTP, in JSON. It has the trace context of the event that caused it, so that it
//! shows beside the agent's spans.

use loopwarden_core::event::EventTime;
use serde_json::{Map, Value, json};

/// Severities of the data model of logs.
const INFO: (u32, &str) = (9, "INFO");
const WARN: (u32, &str) = (13, "WARN");
const ERROR: (u32, &str) = (17, "ERROR");
const NS_IN_MS: i128 = 1_000_000;

/// Attributes by the place in a command that they come from: those of the semantic conventions first.
const ATTRIBUTES: [(&str, &str); 17] = [
    ("session.id", "/session_id"),
    ("gen_ai.conversation.id", "/session_id"),
    ("gen_ai.agent.id", "/scope/agent_id"),
    ("gen_ai.tool.name", "/scope/tool"),
    ("gen_ai.tool.call.id", "/trigger/call_id"),
    ("loopwarden.command.id", "/id"),
    ("loopwarden.command.action", "/action"),
    ("loopwarden.command.level", "/level"),
    ("loopwarden.command.mode", "/mode"),
    ("loopwarden.command.message", "/message"),
    ("loopwarden.command.expires_at", "/expires_at"),
    ("loopwarden.detector", "/reason/code"),
    ("loopwarden.episode", "/episode"),
    ("loopwarden.event.id", "/trigger/event_id"),
    ("loopwarden.swarm.id", "/swarm_id"),
    ("loopwarden.tenant", "/tenant"),
    ("loopwarden.trial", "/trial"),
];

/// The body of a request with this command. `context` is a `traceparent`; one that is none is left out.
pub(crate) fn body(command: &Value, context: Option<&str>) -> Vec<u8> {
    let text = |pointer: &str| command.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (number, word) = match (text("/mode"), text("/action")) {
        ("live", "block") => ERROR,
        ("live", "nudge") => WARN,
        _ => INFO,
    };
    let mut attributes: Vec<Value> =
        ATTRIBUTES.iter().filter_map(|(name, pointer)| attribute(name, command.pointer(pointer)?)).collect();
    for (name, value) in command["labels"].as_object().into_iter().flatten() {
        attributes.extend(attribute(&format!("loopwarden.label.{name}"), value));
    }
    let mut record = Map::from_iter([
        ("severityNumber".to_owned(), Value::from(number)),
        ("severityText".to_owned(), Value::from(word)),
        ("eventName".to_owned(), Value::from(format!("loopwarden.command.{}", text("/action")))),
        ("body".to_owned(), json!({ "stringValue": text("/reason/summary") })),
        ("attributes".to_owned(), Value::from(attributes)),
    ]);
    if let Some(at) = EventTime::parse_rfc3339(text("/issued_at")).filter(|at| at.0 > 0) {
        let ns = (i128::from(at.0) * NS_IN_MS).to_string();
        record.insert("timeUnixNano".to_owned(), Value::from(ns.clone()));
        record.insert("observedTimeUnixNano".to_owned(), Value::from(ns));
    }
    if let Some(context) = context.and_then(TraceContext::parse) {
        record.insert("traceId".to_owned(), Value::from(context.trace_id));
        record.insert("spanId".to_owned(), Value::from(context.span_id));
        record.insert("flags".to_owned(), Value::from(context.flags));
    }
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", "loopwarden"), ("service.version", version)];
    let resource: Vec<Value> = resource.into_iter().filter_map(|(name, value)| attribute(name, &Value::from(value))).collect();
    let body = json!({ "resourceLogs": [{
        "resource": { "attributes": resource },
        "scopeLogs": [{ "scope": { "name": "loopwarden", "version": version }, "logRecords": [record] }],
    }] });
    body.to_string().into_bytes()
}

/// Whether the record was not taken in spite of an answer of success (`partialSuccess`). Another try would give the same.
pub(crate) fn is_rejected(answer: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let rejected = answer.pointer("/partialSuccess/rejectedLogRecords").unwrap_or(&Value::Null);
    // Numbers of 64 bits are texts in JSON.
    rejected.as_str().map_or_else(|| rejected.as_u64(), |text| text.parse().ok()).is_some_and(|records| records > 0)
}

/// An attribute with a text or a whole number; what is empty or of another kind is none.
fn attribute(name: &str, value: &Value) -> Option<Value> {
    let value = match value {
        Value::String(text) if !text.is_empty() => json!({ "stringValue": text }),
        Value::Number(number) => json!({ "intValue": number.as_u64()?.to_string() }),
        _ => return None,
    };
    Some(json!({ "key": name, "value": value }))
}

/// The parts of a W3C `traceparent`.
struct TraceContext<'a> {
    trace_id: &'a str,
    span_id: &'a str,
    flags: u8,
}

impl<'a> TraceContext<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let is_hex = |part: &&str| part.len() == digits && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            parts.next().filter(is_hex)
        };
        let (version, trace_id, span_id, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let is_none = |id: &str| id.bytes().all(|byte| byte == b'0');
        let is_valid = version != "ff" && !is_none(trace_id) && !is_none(span_id);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        is_valid.then_some(Self { trace_id, span_id, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn command(mode: &str, action: &str) -> Value {
        json!({
            "id": "01", "action": action, "session_id": "s\"\n", "level": 3, "mode": mode, "episode": "0E", "labels": { "team": "a" },
            "issued_at": "2026-11-21T20:00:03.120Z", "scope": { "kind": "session", "tool": "Bash" },
            "reason": { "code": "similar_repeat", "summary": "3 calls of Bash" }, "trigger": { "event_id": "e1" },
        })
    }

    fn record(mode: &str, action: &str, context: Option<&str>) -> Value {
        let body: Value = serde_json::from_slice(&body(&command(mode, action), context)).expect("JSON");
        body["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0].clone()
    }

    #[test]
    fn a_command_is_a_record_in_the_trace_of_the_event_that_caused_it() {
        let record = record("live", "block", Some(CONTEXT));
        assert_eq!(record["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((&record["spanId"], &record["flags"]), (&json!("b7ad6b7169203331"), &json!(1)));
        assert_eq!((&record["severityNumber"], &record["eventName"]), (&json!(17), &json!("loopwarden.command.block")));
        assert_eq!(record["timeUnixNano"], "1795291203120000000");
        assert_eq!(record["body"], json!({ "stringValue": "3 calls of Bash" }));
        let value = |name: &str| {
            let attributes = record["attributes"].as_array().expect("a list");
            attributes.iter().find(|attribute| attribute["key"] == name).map(|attribute| attribute["value"].clone())
        };
        assert_eq!(value("session.id"), Some(json!({ "stringValue": "s\"\n" })));
        assert_eq!(value("loopwarden.command.level"), Some(json!({ "intValue": "3" })));
        assert_eq!(value("loopwarden.label.team"), Some(json!({ "stringValue": "a" })));
        assert_eq!(value("gen_ai.agent.id"), None, "an attribute without a value is none");
    }

    #[test]
    fn what_binds_nobody_is_no_warning_and_what_is_no_trace_context_is_left_out() {
        let severity = |mode: &str, action: &str| record(mode, action, None)["severityText"].clone();
        assert_eq!(severity("live", "nudge"), "WARN");
        assert_eq!(
            [severity("shadow", "block"), severity("replay", "nudge"), severity("live", "unblock")],
            ["INFO", "INFO", "INFO"]
        );
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        for bad in ["", "00", zeros, &CONTEXT[..54], &CONTEXT.to_uppercase(), &CONTEXT.replacen("00", "ff", 1)] {
            assert_eq!(record("live", "nudge", Some(bad)).get("traceId"), None, "{bad}");
        }
    }

    #[test]
    fn a_partial_success_is_a_refusal() {
        let rejected = |count: &str| is_rejected(format!(r#"{{"partialSuccess":{{"rejectedLogRecords":{count}}}}}"#).as_bytes());
        assert!(rejected("1") && rejected("\"1\""));
        assert!(
            !rejected("0")
                && !rejected("\"0\"")
                && !rejected("null")
                && !is_rejected(b"")
                && !is_rejected(b"{\"partialSuccess\":{}}")
        );
    }
}
