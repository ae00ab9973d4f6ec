//! `POST /v1/hooks/{agent}`: an agent's own words in, its own words out.

use serde_json::{Value, json};

use crate::http::{Running, Scratch};

/// More calls than a loop needs until it is refused, however late a busy machine decides.
const CALLS_MAX: usize = 400;

fn live(scratch: &Scratch) -> Running {
    Running::start(&scratch.0, &["mode=live"])
}

/// What the agent reads; null where that is nothing.
fn tell(running: &Running, agent: &str, body: &Value) -> Value {
    let answer = running.client.post(&format!("/v1/hooks/{agent}"), "application/json", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text);
    if answer.text.is_empty() { Value::Null } else { answer.json() }
}

fn claude(event: &str, call: usize) -> Value {
    json!({
        "session_id": "s-1", "hook_event_name": event, "tool_name": "Bash", "tool_use_id": format!("toolu_{call}"),
        "tool_input": { "command": "cargo test", "description": format!("attempt {call}") },
        "error": "Exit code 101\nerror: no such package", "is_interrupt": false,
    })
}

#[test]
fn a_loop_is_nudged_and_then_refused_in_the_words_of_the_agent() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let mut nudges = 0;
    for call in 0..CALLS_MAX {
        let before = tell(&running, "claude-code", &claude("PreToolUse", call));
        let said = &before["hookSpecificOutput"];
        if said["permissionDecision"] == "deny" {
            assert!(said["permissionDecisionReason"].as_str().is_some_and(|reason| !reason.contains("[System]")), "{before}");
            assert!(nudges > 0, "refused without a nudge");
            return;
        }
        let after = tell(&running, "claude-code", &claude("PostToolUseFailure", call));
        for (event, said) in [("PreToolUse", before), ("PostToolUseFailure", after)] {
            if !said.is_null() {
                assert_eq!(said["hookSpecificOutput"]["hookEventName"], event, "{said}");
                nudges += usize::from(said["hookSpecificOutput"]["additionalContext"].is_string());
            }
        }
    }
    panic!("never refused, after {nudges} nudges");
}

#[test]
fn what_is_told_twice_is_recorded_once() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    for _ in 0..2 {
        tell(&running, "claude-code", &claude("PreToolUse", 1));
        tell(
            &running,
            "claude-code",
            &json!({ "session_id": "s-1", "hook_event_name": "UserPromptSubmit", "prompt_id": "p", "prompt": "go" }),
        );
    }
    let answer = running.client.get("/v1/events");
    let events = answer.text.lines().filter(|line| line.starts_with('{'));
    let ids: Vec<String> =
        events.map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned()).collect();
    // The log keeps what it was given; the ids are what a duplicate is known by.
    let unique: std::collections::BTreeSet<&String> = ids.iter().collect();
    assert_eq!(unique.len(), 2, "{ids:?}");
}

#[test]
fn what_cannot_be_understood_stops_nobody() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let post = |agent: &str, body: &[u8]| running.client.post(&format!("/v1/hooks/{agent}"), "application/json", body);
    for body in [&b""[..], b"{", b"[]", b"\xff\xfe", b"{\"session_id\":1}", br#"{"hook_event_name":"PreToolUse"}"#] {
        let answer = post("claude-code", body);
        assert_eq!((answer.status, answer.text.as_str()), (200, ""), "{body:?}");
        let answer = post("antigravity", body);
        assert_eq!((answer.status, answer.json()), (200, json!({ "decision": "allow" })), "{body:?}");
    }
    let unknown = post("hal-9000", b"{}");
    assert_eq!((unknown.status, unknown.json()["title"].as_str()), (404, Some("unknown_agent")));
    let foreign = running.client.send("POST", "/v1/hooks/claude-code", &[("origin", "http://evil.example")], b"{}");
    assert_eq!(foreign.status, 403);
    // A file that an agent writes is longer than an event may be; it keeps its ends.
    let mut large = claude("PreToolUse", 7);
    large["tool_input"]["content"] = "x".repeat(1 << 20).into();
    assert_eq!(tell(&running, "claude-code", &large), Value::Null);
    let kept = running.client.get("/v1/events").text;
    assert!(kept.contains("1024 KiB, ") && kept.len() < 64 * 1024, "{}", kept.len());
}

#[test]
fn the_event_stands_in_the_address_where_the_body_does_not_name_it() {
    let scratch = Scratch::new();
    let running = live(&scratch);
    let body = json!({ "sessionId": "s-1", "timestamp": 1, "toolName": "bash", "toolArgs": { "command": "ls" } });
    let answer = running.client.post("/v1/hooks/copilot?hook=preToolUse", "application/json", body.to_string().as_bytes());
    assert_eq!(answer.status, 200);
    assert!(running.client.get("/v1/events").text.contains("\"tool_call\""));
}
