//! What a native event looks like, to tell it from foreign JSON.

use loopwarden_core::event::json;

/// The form of those who send events as they are.
pub const FORM: &str = "events";

/// Kinds of native events: what has one of them is one.
const KINDS: [&str; 9] =
    ["tool_call", "tool_result", "tool", "message", "session_start", "session_end", "progress", "reset", "ack"];

/// Whether valid JSON is a native event, good or bad.
pub fn is_native(text: &str) -> bool {
    let is_kind = |value| json::is_string(value) && KINDS.contains(&&*json::unquote(value));
    text.trim_ascii_start().starts_with('{') && json::fields(text).any(|(name, value)| name == "kind" && is_kind(value))
}
