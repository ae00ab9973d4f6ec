//! What real agents told their hooks (`tests/agents/recorded`), and what becomes of it: the event, and the answer to a refusal, a nudge and
//! a stop. Lines without expectations are filled in with `LOOPWARDEN_GOLDEN=write`, to be read before they are committed.

use std::{fs, path::PathBuf};

use loopwarden_core::event::{EventTime, RecordMeta, decode};
use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;
use loopwarden_guard::{Action, Answer, Decision, Freshness, Source};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::agents::{AGENTS, agent};
use crate::hook::{BODY_BYTES_MAX, read, write};
use crate::{Agent, hook::HookEvent};

const MESSAGE: &str = "The same call has returned the same result 3 times. Try something else.";

fn allow() -> Answer {
    Answer::allow(Freshness { as_of: None, lag_ms: None, stale: false, source: Source::Embedded })
}

fn nudge() -> Answer {
    Answer { action: Action::Nudge, message: Some(MESSAGE.to_owned()), ..allow() }
}

fn deny() -> Answer {
    Answer { decision: Decision::Deny, action: Action::Block, message: Some(MESSAGE.to_owned()), ..allow() }
}

fn stop() -> Answer {
    Answer { stop: true, ..deny() }
}

/// The answer as JSON; null where it is empty.
fn written(agent: &Agent, heard: &HookEvent, answer: &Answer) -> Value {
    let bytes = write(agent, heard, Some(answer));
    if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).expect("an answer is JSON") }
}

/// What becomes of one line.
fn outcome(agent: &'static Agent, line: &Value) -> Value {
    let heard = read(agent, line["body"].to_string().as_bytes(), line["hook"].as_str(), 7);
    let event: Value = heard.event.as_ref().map_or(Value::Null, |event| serde_json::from_str(event.get()).expect("JSON"));
    if let Some(event) = &heard.event {
        let meta = RecordMeta::without_place(EventTime(0), RECORD_BYTES_MAX_DEFAULT);
        decode(Some(event.get().as_bytes()), &meta).unwrap_or_else(|rejected| panic!("{event}: {rejected:?}"));
    }
    let mut outcome = line.clone();
    for (name, value) in [
        ("event", event),
        ("asks", heard.asks.into()),
        ("allow", written(agent, &heard, &allow())),
        ("nudge", written(agent, &heard, &nudge())),
        ("deny", written(agent, &heard, &deny())),
        ("stop", written(agent, &heard, &stop())),
    ] {
        outcome[name] = value;
    }
    outcome
}

#[test]
fn what_was_recorded_becomes_the_same_events_and_answers() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/agents/recorded");
    for agent in &AGENTS {
        let path = folder.join(format!("{}.ndjson", agent.name));
        let text = fs::read_to_string(&path).expect("each agent has a recording");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
        let outcomes: Vec<Value> = lines.iter().map(|line| outcome(agent, line)).collect();
        if std::env::var_os("LOOPWARDEN_GOLDEN").is_some_and(|mode| mode == "write") {
            let all: Vec<String> = outcomes.iter().map(Value::to_string).collect();
            fs::write(&path, all.join("\n") + "\n").expect("the recording can be written");
            continue;
        }
        for (line, outcome) in lines.iter().zip(outcomes) {
            assert_eq!(line, &outcome, "{}", agent.name);
        }
        assert!(lines.iter().any(|line| line["asks"] == true), "{}", agent.name);
    }
}

#[test]
fn the_same_message_twice_has_one_id_and_two_calls_have_two() {
    let id = |agent: &str, body: &Value, fresh| {
        let heard = read(crate::agents::agent(agent).expect("an agent"), body.to_string().as_bytes(), Some("preToolUse"), fresh);
        let event: Value = serde_json::from_str(heard.event.expect("an event").get()).expect("JSON");
        event["id"].as_str().expect("a text").to_owned()
    };
    let named = json!({"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{},"tool_use_id":"t"});
    assert_eq!(id("claude-code", &named, 1), id("claude-code", &named, 2));
    let timed = json!({"sessionId":"s","timestamp":5,"toolName":"bash","toolArgs":{}});
    let later = json!({"sessionId":"s","timestamp":6,"toolName":"bash","toolArgs":{}});
    assert_eq!(id("copilot", &timed, 1), id("copilot", &timed, 2));
    assert_ne!(id("copilot", &timed, 1), id("copilot", &later, 1));
    // Neither an id nor a time: each message counts.
    let bare = json!({"session_id":"s","event_type":"PreToolUse","tool_name":"terminal","tool_input":{}});
    assert_ne!(id("openhands", &bare, 1), id("openhands", &bare, 2));
}

#[test]
fn a_large_result_keeps_its_ends_and_a_mark_of_the_whole() {
    let result = |middle: &str| {
        let body = json!({"session_id":"s","hook_event_name":"PostToolUse","tool_name":"Read","tool_input":{"file_path":"a"},
            "tool_use_id":"t","tool_response":format!("{}{middle}{}", "x".repeat(300_000), "y".repeat(300_000))});
        outcome(agent("claude-code").expect("an agent"), &json!({ "body": body }))["event"]["result"].clone()
    };
    let text = result("a").as_str().expect("a text").to_owned();
    assert!(text.starts_with("xxx") && text.ends_with("yyy") && text.len() < 40_000, "{}", text.len());
    assert_eq!(result("a"), text.as_str());
    assert_ne!(result("b"), text.as_str());
}

#[test]
fn hostile_bodies_are_answered_with_no_opinion() {
    let deep = format!("{{\"session_id\":{}", "[".repeat(1_000_000));
    let huge = format!("{{\"session_id\":\"{}\"}}", "x".repeat(BODY_BYTES_MAX));
    let bodies: [&[u8]; 8] = [
        b"",
        b"null",
        b"{\"session_id\":\"\xff\"}",
        b"{\"session_id\":1,\"hook_event_name\":[]}",
        br#"{"session_id":"\u0000","hook_event_name":"PreToolUse","tool_name":"x"}"#,
        br#"{"session_id":"s","hook_event_name":"PreToolUse","tool_name":{"a":1}}"#,
        deep.as_bytes(),
        huge.as_bytes(),
    ];
    for agent in &AGENTS {
        for body in bodies {
            let heard = read(agent, body, None, 0);
            assert!(heard.event.is_none() && heard.check().is_none(), "{}", agent.name);
            assert_eq!(write(agent, &heard, Some(&deny())), write(agent, &heard, None), "{}", agent.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn no_bytes_break_the_reader(body in prop_oneof![any::<Vec<u8>>(), objects()], hook in "[a-zA-Z.]{0,20}") {
        for agent in &AGENTS {
            let heard = read(agent, &body, Some(&hook), 0);
            let bytes = write(agent, &heard, Some(&deny()));
            prop_assert!(bytes.is_empty() || serde_json::from_slice::<Value>(&bytes).is_ok());
            // An event is JSON, and a body without one asks nothing.
            prop_assert!(heard.event.is_some() || !heard.asks);
        }
    }
}

/// Objects of the fields that agents send, with values of any kind.
fn objects() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "session_id",
        "sessionId",
        "hook_event_name",
        "event",
        "event_type",
        "hookName",
        "tool_name",
        "toolName",
        "tool_input",
        "toolCall",
        "preToolUse",
        "tool_use_id",
        "tool_response",
        "timestamp",
        "error",
        "taskId",
        "conversationId",
    ];
    let values = [
        "null",
        "1",
        "-1",
        "true",
        "\"\"",
        "\"PreToolUse\"",
        "\"AfterTool\"",
        "\"\\u0001\"",
        "{}",
        "[]",
        "{\"name\":\"x\"}",
        "{\"toolName\":\"x\",\"parameters\":3}",
        "1e999",
        "\"a\\nb\"",
    ];
    let member = (proptest::sample::select(names.to_vec()), proptest::sample::select(values.to_vec()));
    proptest::collection::vec(member, 0..10).prop_map(|members| {
        let members: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
        format!("{{{}}}", members.join(",")).into_bytes()
    })
}
