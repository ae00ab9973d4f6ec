//! One story told twice: as events, and as spans of the GenAI conventions with their content. The commands are the same, at the same calls.
//!
//! Left out of both is what spans cannot say: turns, messages, usage, swarms, exit codes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::golden::RULES;
use crate::http::{Running, Scratch};

/// A finished call of the sample fleet.
struct Call {
    session: String,
    time_ms: i64,
    duration_ms: i64,
    tool: Value,
    args: Value,
    result: Value,
    outcome: Value,
    error: Option<(String, String)>,
}

/// The calls of the sample fleet in their order, those that are reported in two parts put together.
fn story() -> Vec<Call> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/demo/fleet.ndjson");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut open, mut calls): (BTreeMap<String, Value>, Vec<Call>) = (BTreeMap::new(), Vec::new());
    // As if it ran now: what is old has expired.
    let shift = loopwarden::clock::now_ms() - time_ms(&json!("2026-01-05T11:00:00Z"));
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let session = event["session_id"].as_str().unwrap().to_owned();
        let key = format!("{session} {} {}", event["agent"]["id"], event["call_id"]);
        let asked = match event["kind"].as_str().unwrap() {
            "tool_call" => {
                open.insert(key, event);
                continue;
            }
            "tool_result" => open.remove(&key).unwrap(),
            "tool" => event.clone(),
            _ => continue,
        };
        let text = |name: &str| event["error"][name].as_str().unwrap_or_default().to_owned();
        calls.push(Call {
            session,
            time_ms: time_ms(&event["time"]) + shift,
            duration_ms: event["duration_ms"].as_i64().unwrap_or_default(),
            tool: asked["tool"].clone(),
            args: asked["args"].clone(),
            result: event["result"].clone(),
            outcome: event["outcome"].clone(),
            error: (event["outcome"] == "error").then(|| (text("type"), text("message"))),
        });
    }
    calls.sort_by_key(|call| call.time_ms);
    calls
}

fn time_ms(text: &Value) -> i64 {
    loopwarden::event::EventTime::parse_rfc3339(text.as_str().unwrap()).unwrap().0
}

/// The call as an event.
fn event(number: usize, call: &Call) -> Value {
    let mut event = json!({
        "id": number.to_string(), "kind": "tool", "session_id": call.session, "time": call.time_ms, "duration_ms": call.duration_ms,
        "tool": call.tool, "args": call.args, "result": call.result, "outcome": call.outcome,
    });
    if let Some((kind, message)) = &call.error {
        let told = [("type", kind), ("message", message)].into_iter().filter(|(_, text)| !text.is_empty());
        event["error"] = told.map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect::<Map<_, _>>().into();
    }
    event
}

/// A value of an attribute as instrumentations write it: what is no text is its JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The call as a span, whose number is its id.
fn span(number: usize, call: &Call) -> Value {
    let mut attributes = vec![
        ("gen_ai.operation.name", "execute_tool".to_owned()),
        ("gen_ai.conversation.id", call.session.clone()),
        ("gen_ai.tool.name", text(&call.tool)),
    ];
    for (key, value) in [("gen_ai.tool.call.arguments", &call.args), ("gen_ai.tool.call.result", &call.result)] {
        if !value.is_null() {
            attributes.push((key, text(value)));
        }
    }
    let mut status = json!({});
    if let Some((kind, message)) = &call.error {
        status = json!({ "code": 2, "message": message });
        if !kind.is_empty() {
            attributes.push(("error.type", kind.clone()));
        }
    }
    let attributes: Vec<Value> =
        attributes.into_iter().map(|(key, text)| json!({ "key": key, "value": { "stringValue": text } })).collect();
    let end = call.time_ms * 1_000_000;
    let start = end - call.duration_ms * 1_000_000;
    // A run is a trace.
    let trace = call.session.bytes().fold(1_u128, |hash, byte| hash.wrapping_mul(1_000_003) + u128::from(byte));
    json!({
        "traceId": format!("{trace:032x}"), "spanId": format!("{:016x}", number + 1), "name": format!("execute_tool {}", text(&call.tool)),
        "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(), "attributes": attributes, "status": status,
    })
}

/// What each command says, with the number of the call that caused it. Ends of blocks are a matter of timers.
fn said(running: &Running, calls: usize, number_of: impl Fn(&str) -> usize) -> Vec<Value> {
    running.json_until("/overview", |overview| overview["events"] == calls);
    // This answer waits for the sync of all that is written: what is not durable is not in the feed.
    running.json_until("/v1/state/coding-01", |state| state["active"].is_array());
    let (commands, _) = running.commands("after=0&wait=0s");
    let commands = commands.iter().filter(|command| command["action"] != "unblock");
    let essence = |command: &Value| {
        let (reason, scope) = (&command["reason"], &command["scope"]);
        json!([
            command["session_id"],
            number_of(command["trigger"]["event_id"].as_str().unwrap()),
            command["action"],
            command["level"],
            reason["code"],
            reason["evidence"]["count"],
            scope["kind"],
            scope["tool"],
            scope["fingerprint"]
        ])
    };
    let mut said: Vec<Value> = commands.map(essence).collect();
    said.sort_by_key(Value::to_string);
    said
}

#[test]
fn the_same_sessions_give_the_same_commands_as_events_and_as_spans_with_content() {
    let story = story();
    let lines: Vec<String> = story.iter().enumerate().map(|(number, call)| event(number, call).to_string()).collect();
    let spans: Vec<Value> = story.iter().enumerate().map(|(number, call)| span(number, call)).collect();
    let export = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    let mut all = Vec::new();
    // Detectors by news, and those of the reference systems.
    for policy in ["default", RULES, "plain"] {
        let [natively, by_spans] = [Scratch::new(), Scratch::new()];
        let policy = format!("policy={policy}");
        let settings = [policy.as_str(), "mode=live"];
        let natively = Running::start(&natively.0, &settings);
        let answer = natively.client.post("/v1/events", "application/x-ndjson", lines.join("\n").as_bytes());
        assert_eq!((answer.status, answer.json()["rejected"].clone()), (202, json!([])));
        let by_spans = Running::start(&by_spans.0, &settings);
        let answer = by_spans.client.post("/v1/traces", "application/json", export.to_string().as_bytes());
        assert_eq!((answer.status, answer.text.trim()), (200, "{}"));
        let of_events = said(&natively, story.len(), |id| id.parse().unwrap());
        let of_spans = said(&by_spans, story.len(), |id| usize::from_str_radix(id.rsplit('-').next().unwrap(), 16).unwrap() - 1);
        assert_eq!(of_events, of_spans, "{policy}");
        all.extend(of_events);
    }
    let different = |at: usize| all.iter().map(|command| command[at].to_string()).collect::<BTreeSet<_>>();
    let [sessions, actions, detectors] = [0, 2, 4].map(different);
    assert!(sessions.len() >= 20 && actions.len() == 2 && detectors.len() > 10, "{sessions:?} {actions:?} {detectors:?}");
}
