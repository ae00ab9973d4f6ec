//! Native events to be.

use loopwarden_core::event::{EventTime, RecordMeta, Rejected, decode};
use loopwarden_core::identity::hash_parts;
use serde_json::{Map, Value, json};

use crate::batch::Made;
use crate::senders::Calls;
use crate::text;

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
    /// The answer is cut.
    pub(crate) is_cut: bool,
    /// As in an event; `None` = worked.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) error_type: Option<String>,
    pub(crate) error_message: Option<String>,
    pub(crate) exit_code: Option<i64>,
    /// Agent inside the session; `None` is the main one.
    pub(crate) agent_id: Option<String>,
    /// An id that the call has in all reports of it.
    pub(crate) event_id: Option<String>,
}

impl Call {
    /// The fields of the event.
    pub(crate) fn fields(self) -> Map<String, Value> {
        let is_error = matches!(self.outcome, Some("error" | "timeout"));
        let error = known(json!({
            "type": self.error_type,
            "message": self.error_message.as_deref().map(text::shortened),
            "exit_code": self.exit_code.filter(|code| is_error || *code != 0),
        }));
        // An answer that nobody reported proves no "same answer" either.
        let is_unreported = self.result.is_none() && !matches!(self.outcome, Some("denied" | "cancelled"));
        known(json!({
            "tool": self.tool,
            "call_id": self.call_id.filter(|id| !id.is_empty()),
            "args": self.args.map(text::fitting),
            "result": self.result.map(text::fitting),
            "result_bytes": self.result_bytes.filter(|bytes| *bytes >= 0),
            "truncated": (self.is_cut || is_unreported && self.error_message.is_none()).then_some(true),
            "outcome": self.outcome.unwrap_or("ok"),
            "error": Some(error).filter(|error| !error.is_empty()),
            "agent": self.agent_id.map(|id| json!({ "id": id })),
        }))
    }
}

/// The fields of an object that are not null.
pub(crate) fn known(object: Value) -> Map<String, Value> {
    let Value::Object(mut fields) = object else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

/// An id for a record that has none: equal records have equal ids, so that what is sent twice counts once.
pub(crate) fn id_of(parts: &[&str]) -> String {
    // With its length in front no part can run into the next.
    let lengths: Vec<String> = parts.iter().map(|part| part.len().to_string()).collect();
    let joined: Vec<&str> =
        lengths.iter().map(String::as_str).zip(parts.iter().copied()).flat_map(|(a, b)| [a, ":", b]).collect();
    format!("{:032x}", hash_parts(&joined).hash128().0)
}

/// What is to be known of every event: its bound, and the time of the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) event_bytes_max: usize,
    pub(crate) now: EventTime,
}

impl Bounds {
    /// Reads a native event as the engine will, since nothing else may reach the topic.
    pub(crate) fn check(self, source: &'static str, json: Vec<u8>) -> Result<Made, Rejected> {
        let meta = RecordMeta::without_place(self.now, self.event_bytes_max);
        let event = decode(Some(&json), &meta)?;
        let (session_id, time) = (event.session_id.as_ref().to_owned(), event.has_time.then_some(event.time));
        let calls = Calls::of(&event);
        drop(event);
        Ok(Made { session_id, json, time, source: Some(source), calls })
    }

    /// Completes the fields of a kind.
    pub(crate) fn event(
        self,
        source: &'static str,
        (kind, id, session_id): (&str, &str, &str),
        time: Option<EventTime>,
        mut fields: Map<String, Value>,
    ) -> Result<Made, Rejected> {
        fields.extend(known(json!({
            "id": id,
            "kind": kind,
            "session_id": session_id,
            "time": time.map(EventTime::to_rfc3339),
        })));
        self.check(source, Value::Object(fields).to_string().into_bytes())
    }
}
