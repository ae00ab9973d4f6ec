//! A call of a tool as native events.

use loopwarden_core::limits::NAME_CHARS_MAX;
use loopwarden_core::native::{EventAgent, EventError, NativeEvent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::content::{Returned, ToolResult};
use crate::message::Answered;

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
    pub(crate) fn before(&self, arguments: Option<&RawValue>) -> Option<Box<RawValue>> {
        let mut event = NativeEvent::default();
        match arguments {
            Some(arguments) => event.content("args", arguments),
            None => event.content("args", json!({})),
        }
        self.event("tool_call", event)
    }

    /// The event of its result. The text of a failure is its result too: that is what the model reads.
    pub(crate) fn after(&self, answered: &Answered<'_>) -> Option<Box<RawValue>> {
        let mut event = NativeEvent::default();
        let error = match answered {
            Answered::Error(error) => {
                let message = message_of(error);
                event.content("result", &message);
                Some(message)
            }
            Answered::Result(result) => returned(&mut event, result),
        };
        event.put("outcome", if error.is_some() { "error" } else { "ok" });
        event.error(&EventError { message: error.as_deref(), ..EventError::default() });
        self.event("tool_result", event)
    }

    /// The event of a call that the client gave up.
    pub(crate) fn cancelled(&self) -> Option<Box<RawValue>> {
        let mut event = NativeEvent::default();
        event.put("outcome", "cancelled");
        self.event("tool_result", event)
    }

    /// `None` where a name of the call is none that an event may have.
    fn event(&self, kind: &str, mut event: NativeEvent<'_>) -> Option<Box<RawValue>> {
        event.put("agent", EventAgent { framework: Some("mcp"), ..EventAgent::default() });
        event.put("tool", &self.tool);
        event.put("call_id", &self.id);
        RawValue::from_string(event.json(kind, &format!("{}-{kind}", self.id), &self.session).ok()?).ok()
    }
}

/// Puts what a tool returned into its event; the text of a failure.
fn returned(event: &mut NativeEvent<'_>, raw: &RawValue) -> Option<String> {
    let Some(result) = ToolResult::read(raw) else {
        event.content("result", raw);
        return None;
    };
    let said = match result.returned() {
        Returned::Text(text) => {
            event.content("result", &text);
            text
        }
        Returned::Raw(raw) => {
            event.content("result", raw);
            String::new()
        }
        Returned::Nothing => String::new(),
    };
    result.is_error.then_some(said)
}

/// The text of an error of the protocol.
fn message_of(error: &RawValue) -> String {
    let error: Option<Value> = serde_json::from_str(error.get()).ok();
    error.and_then(|error| Some(error.get("message")?.as_str()?.to_owned())).unwrap_or_default()
}

/// A name as events have it.
pub(crate) fn name(text: &str) -> String {
    let kept: String = text.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX).collect();
    if kept.trim().is_empty() { "unknown".to_owned() } else { kept }
}
