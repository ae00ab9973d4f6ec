//! Calls that conventions report, as native events.

use loopwarden_core::native::{EventAgent, EventError, NativeEvent};
use serde_json::Value;

/// A call with its answer, as some convention reports it. What is absent is not reported.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(clippy::struct_field_names, reason = "the name of the field in an event")]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) call_id: Option<String>,
    pub(crate) args: Option<Value>,
    pub(crate) result: Option<Value>,
    /// Bytes of the whole answer, where only its size is reported.
    pub(crate) result_bytes: Option<i64>,
    pub(crate) is_cut: bool,
    /// As in an event; `None` = worked.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) error_type: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) exit_code: Option<i64>,
    /// Agent inside the session; `None` is the main one.
    pub(crate) agent_id: Option<String>,
    /// Another agent of the session has started it.
    pub(crate) is_of_sub_agent: bool,
    /// An id that the call has in all reports of it.
    pub(crate) event_id: Option<String>,
}

impl Call {
    /// The members of the event, of a call in that session.
    pub(crate) fn into_event(self, session_id: &str) -> NativeEvent<'static> {
        let is_error = matches!(self.outcome, Some("error" | "timeout"));
        // An answer that nobody reported proves no "same answer" either.
        let is_unreported = self.result.is_none() && !matches!(self.outcome, Some("denied" | "cancelled"));
        let mut event = NativeEvent::default();
        event.put("tool", self.tool);
        event.put("call_id", self.call_id.filter(|id| !id.is_empty()));
        event.content("args", self.args);
        event.content("result", self.result);
        event.put("result_bytes", self.result_bytes.filter(|bytes| *bytes >= 0));
        event.put("truncated", (self.is_cut || is_unreported && self.error_message.is_none()).then_some(true));
        event.put("outcome", self.outcome.unwrap_or("ok"));
        event.error(&EventError {
            exit_code: self.exit_code.filter(|code| is_error || *code != 0),
            message: self.error_message.as_deref(),
            kind: self.error_type.as_deref(),
        });
        let root_id = self.is_of_sub_agent.then_some(session_id);
        let agent = |id| EventAgent { id: Some(id), root_id, ..EventAgent::default() };
        event.put("agent", self.agent_id.as_deref().map(agent));
        event
    }
}
