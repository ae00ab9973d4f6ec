//! A call of a tool as events, bounded so that the engine takes them.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::content::{Returned, ToolResult};
use crate::message::Answered;

/// Arguments or a result up to here; of more, only the hash is sent. Bytes. Two of them and the rest stay below what the engine takes.
const CONTENT_BYTES_MAX: usize = 96 * 1024;
/// Longest text of an error. Characters.
const ERROR_CHARS_MAX: usize = 4_096;
/// Longest name. Characters.
const NAME_CHARS_MAX: usize = 256;

/// A call under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) session: String,
    pub(crate) id: String,
    pub(crate) tool: String,
    /// A text for the model that waits for the result.
    pub(crate) text: Option<String>,
}

impl Call {
    /// The event before the call.
    pub(crate) fn before(&self, arguments: Option<&str>) -> Value {
        let mut event = self.event("tool_call");
        add(&mut event, "args", arguments.unwrap_or("{}"));
        Value::Object(event)
    }

    /// The event of its result. The text of a failure is its result too: that is what the model reads.
    pub(crate) fn after(&self, answered: &Answered<'_>) -> Value {
        let mut event = self.event("tool_result");
        let (outcome, error) = match answered {
            Answered::Error(error) => {
                let message = message_of(error);
                add(&mut event, "result", &json!(message).to_string());
                ("error", Some(message))
            }
            Answered::Result(result) => returned(&mut event, result),
        };
        event.insert("outcome".to_owned(), outcome.into());
        if let Some(error) = error {
            let message: String = error.chars().take(ERROR_CHARS_MAX).collect();
            event.insert("error".to_owned(), json!({ "message": message }));
        }
        Value::Object(event)
    }

    /// The event of a call that the client gave up.
    pub(crate) fn cancelled(&self) -> Value {
        let mut event = self.event("tool_result");
        event.insert("outcome".to_owned(), "cancelled".into());
        Value::Object(event)
    }

    fn event(&self, kind: &str) -> Map<String, Value> {
        let members = [
            ("id", json!(format!("{}-{kind}", self.id))),
            ("kind", json!(kind)),
            ("session_id", json!(self.session)),
            ("agent", json!({ "framework": "mcp" })),
            ("tool", json!(self.tool)),
            ("call_id", json!(self.id)),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Puts what a tool returned into its event; the outcome, and the text of a failure.
fn returned(event: &mut Map<String, Value>, raw: &RawValue) -> (&'static str, Option<String>) {
    let Some(result) = ToolResult::read(raw) else {
        add(event, "result", raw.get());
        return ("ok", None);
    };
    let said = match result.returned() {
        Returned::Text(text) => {
            add(event, "result", &json!(text).to_string());
            text
        }
        Returned::Raw(raw) => {
            add(event, "result", raw);
            String::new()
        }
        Returned::Nothing => String::new(),
    };
    if result.is_error { ("error", Some(said)) } else { ("ok", None) }
}

/// The text of an error of the protocol.
fn message_of(error: &RawValue) -> String {
    let error: Option<Value> = serde_json::from_str(error.get()).ok();
    error.and_then(|error| Some(error.get("message")?.as_str()?.to_owned())).unwrap_or_default()
}

/// A JSON text as it is, or its hash and its size where it is too large or none that the engine would take.
fn add(event: &mut Map<String, Value>, field: &str, json: &str) {
    let value = (json.len() <= CONTENT_BYTES_MAX).then(|| serde_json::from_str::<Value>(json).ok()).flatten();
    if let Some(value) = value {
        event.insert(field.to_owned(), value);
        return;
    }
    let hash = Sha256::digest(json).iter().fold(String::new(), |mut hash, byte| {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    });
    event.insert(format!("{field}_sha256"), hash.into());
    event.insert(format!("{field}_bytes"), json.len().into());
}

/// A name as events have it.
pub(crate) fn name(text: &str) -> String {
    let kept: String = text.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX).collect();
    if kept.trim().is_empty() { "unknown".to_owned() } else { kept }
}
