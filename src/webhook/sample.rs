//! A command that nobody has caused, to look at how it arrives.

use loopwarden_core::event::EventTime;
use loopwarden_log::{Destination, Headers, Output};
use serde_json::{Value, json};

/// How long it would be in force.
const FOR_MS: i64 = 60_000;
/// Session of all such commands.
const SESSION: &str = "loopwarden-webhook-test";

/// A command of this action as it would stand on the topic. Its mode is `replay`, which binds nobody, and those of one time are of one loop.
pub(crate) fn sample(action: &str, now_ms: i64) -> Output {
    let (id, episode) = (id(now_ms, action), id(now_ms, "nudge"));
    let (now, until) = (EventTime(now_ms).to_rfc3339(), EventTime(now_ms.saturating_add(FOR_MS)).to_rfc3339());
    let mut command = json!({
        "v": 1, "id": id, "action": action, "session_id": SESSION,
        "scope": { "kind": "session", "agent_id": "main", "tool": "Bash" },
        "level": 1, "epoch": now_ms.max(0), "seq": 1, "episode": episode, "issued_at": now, "expires_at": until, "mode": "replay",
        "reason": { "code": "similar_repeat", "summary": "a test of this webhook: no agent loops" },
        "trigger": { "event_id": id, "topic": "none", "partition": 0, "offset": 0, "time": now },
        "engine": { "version": env!("CARGO_PKG_VERSION"), "profile": "default", "policy_sha256": "0".repeat(64) },
    });
    if let Some(command) = command.as_object_mut().filter(|_| action != "unblock") {
        command.insert("message".to_owned(), Value::from("This is a test. Nothing is to be done."));
    }
    let kind = format!("dev.loopwarden.command.{action}.v1");
    let headers = [
        ("ce_specversion", "1.0"),
        ("ce_id", id.as_str()),
        ("ce_source", "/loopwarden/test"),
        ("ce_type", kind.as_str()),
        ("ce_subject", SESSION),
        ("ce_time", now.as_str()),
        ("ce_expirytime", until.as_str()),
    ];
    Output {
        destination: Destination::Commands,
        key: SESSION.as_bytes().to_vec(),
        value: Some(command.to_string().into_bytes()),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Headers>(),
        timestamp_ms: now_ms,
    }
}

/// 26 digits, as ids of commands have: the time, and a digit for the action.
fn id(now_ms: i64, action: &str) -> String {
    let digit = match action {
        "nudge" => 1,
        "block" => 2,
        _ => 3,
    };
    format!("0{:024}{digit}", now_ms.max(0))
}
