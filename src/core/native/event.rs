//! One native event under construction.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::event::{Content, KINDS, Reason, Rejected, is_name, json};
use crate::identity::{canonical_text, hash_parts};
use crate::limits::{ERROR_CHARS_MAX, RECORD_BYTES_MAX_CEILING, TEXT_CHARS_MAX};
use crate::native::content::{Part, fitting, quoted, text_source};

/// Members that hold a name. What is none cannot be a key.
const NAMES: [&str; 4] = ["id", "session_id", "tool", "call_id"];
/// Members that hold content.
const CONTENTS: [(&str, Part); 3] = [(ARGS, Part::Arguments), ("result", Part::Result), ("stable_result", Part::Result)];
const ARGS: &str = "args";

/// The members of an event: name and JSON source. What is null is absent.
#[derive(Debug, Clone, Default)]
pub struct NativeEvent<'a>(BTreeMap<&'a str, String>);

/// Who acts inside the session.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EventAgent<'a> {
    /// The program that runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framework: Option<&'a str>,
    /// Absent for the main agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The tree that it belongs to: of an agent that another one of its session has started, the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_id: Option<&'a str>,
    /// Its kind, as the program names it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EventError<'a> {
    /// Exit code of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// Text of the error, of any length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'a str>,
    /// Class of the error.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'a str>,
}

impl<'a> NativeEvent<'a> {
    pub fn put(&mut self, name: &'a str, value: impl Serialize) {
        let source = source_of(&value);
        if source != "null" {
            self.0.insert(name, source);
        }
    }

    /// Sets `args`, `result` or `stable_result`, however long the value is.
    pub fn content(&mut self, name: &'a str, value: impl Serialize) {
        let source = source_of(&value);
        if source != "null" {
            let part = if name == ARGS { Part::Arguments } else { Part::Result };
            self.0.insert(name, fitting(source, part));
        }
    }

    /// Sets `text`, as much of it as is read.
    pub fn text(&mut self, text: &str) {
        self.put("text", cut(text, TEXT_CHARS_MAX));
    }

    /// Sets `error`, unless nothing is known of it.
    pub fn error(&mut self, error: &EventError<'_>) {
        if *error != EventError::default() {
            let message = error.message.map(|message| cut(message, ERROR_CHARS_MAX));
            self.put("error", EventError { message, ..error.clone() });
        }
    }

    /// The members so far as JSON, in the order of their names.
    #[must_use]
    pub fn members(&self) -> String {
        let size: usize = self.0.iter().map(|(name, source)| name.len() + source.len() + 4).sum();
        let mut out = String::with_capacity(size + 2);
        for (name, source) in &self.0 {
            out.push(if out.is_empty() { '{' } else { ',' });
            out.push_str(&quoted(name));
            out.push(':');
            out.push_str(source);
        }
        out.push_str(if out.is_empty() { "{}" } else { "}" });
        out
    }

    /// Completes the event with what each has, and writes it.
    ///
    /// # Errors
    /// As [`NativeEvent::finish`].
    pub fn json(mut self, kind: &str, id: &str, session_id: &str) -> Result<String, Rejected> {
        self.put("kind", kind);
        self.put("id", id);
        self.put("session_id", session_id);
        self.finish()
    }

    /// The event as JSON. Content that no record can hold as a value goes as its canonical text: with half a character, or too deep.
    ///
    /// # Errors
    /// [`Reason::BadValue`] at a name that is none; where it is not content that does not fit, [`Reason::TooDeep`], and
    /// [`Reason::TooLarge`] above the largest record that a setting allows.
    pub fn finish(mut self) -> Result<String, Rejected> {
        for name in NAMES {
            let source = self.0.get(name).filter(|source| json::is_string(source));
            if source.is_some_and(|source| !is_name(&json::unquote(source))) {
                return Err(Rejected::at(Reason::BadValue, name));
            }
        }
        let mut json = self.members();
        let faults = json::faults(&json);
        if faults.is_too_deep || faults.surrogate.is_some() {
            for (name, part) in CONTENTS {
                if let Some(content) = self.0.get_mut(name) {
                    *content = text_source(&canonical_text(&Content::Raw(content)), part);
                }
            }
            json = self.members();
            if json::faults(&json).is_too_deep {
                return Err(Rejected::whole(Reason::TooDeep));
            }
        }
        if json.len() > RECORD_BYTES_MAX_CEILING { Err(Rejected::whole(Reason::TooLarge)) } else { Ok(json) }
    }
}

fn source_of(value: &impl Serialize) -> String {
    // What has no spelling in JSON is as good as absent.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn cut(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// An id for a record that has none: equal records have equal ids, so that what is sent twice counts once.
#[must_use]
pub fn id_of(parts: &[&str]) -> String {
    // With its length in front no part can run into the next.
    let lengths: Vec<String> = parts.iter().map(|part| part.len().to_string()).collect();
    let joined: Vec<&str> =
        lengths.iter().map(String::as_str).zip(parts.iter().copied()).flat_map(|(a, b)| [a, ":", b]).collect();
    format!("{:032x}", hash_parts(&joined).hash128().0)
}

/// Whether valid JSON is a native event, good or bad: it has one of the kinds.
#[must_use]
pub fn is_native(text: &str) -> bool {
    let is_kind = |value| json::is_string(value) && KINDS.contains(&&*json::unquote(value));
    text.trim_ascii_start().starts_with('{') && json::fields(text).any(|(name, value)| name == "kind" && is_kind(value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, value::RawValue};

    use super::*;
    use crate::event::{Event, EventKind, EventTime, RecordMeta, decode};

    fn read(json: &str) -> Event<'_> {
        decode(Some(json.as_bytes()), &RecordMeta::without_place(EventTime(0), RECORD_BYTES_MAX_CEILING)).unwrap()
    }

    fn args_of(json: &str) -> Content<'_> {
        match read(json).kind {
            EventKind::ToolCall(call) => call.args,
            other => panic!("{other:?}"),
        }
    }

    fn call(args: impl Serialize) -> String {
        let mut event = NativeEvent::default();
        event.put("tool", "t");
        event.content("args", args);
        event.json("tool_call", "i", "s").unwrap()
    }

    #[test]
    fn members_stand_in_order_and_null_is_absent() {
        let mut event = NativeEvent::default();
        event.put("turn", None::<u64>);
        event.put("agent", EventAgent { id: Some("a"), ..EventAgent::default() });
        event.error(&EventError::default());
        event.text(&"é".repeat(TEXT_CHARS_MAX + 1));
        assert_eq!(event.members(), format!(r#"{{"agent":{{"id":"a"}},"text":"{}"}}"#, "é".repeat(TEXT_CHARS_MAX)));
        assert_eq!(NativeEvent::default().members(), "{}");
    }

    #[test]
    fn what_is_no_name_is_refused_with_its_field() {
        for (id, session_id, tool, field) in
            [("", "s", "t", "/id"), ("i", "a\nb", "t", "/session_id"), ("i", "s", "\u{1}", "/tool"), ("i", "s", "", "/tool")]
        {
            let mut event = NativeEvent::default();
            event.put("tool", tool);
            let rejected = event.json("tool_call", id, session_id).unwrap_err();
            assert_eq!((rejected.reason, rejected.field.as_str()), (Reason::BadValue, field));
        }
    }

    #[test]
    fn content_that_is_no_value_of_a_record_is_still_compared_and_what_else_is_too_deep_is_refused() {
        let raw = |source: &str| RawValue::from_string(source.to_owned()).unwrap();
        let text = Value::from("{\"a\":\"\u{fffd}\"}").to_string();
        assert_eq!(args_of(&call(raw(r#"{"a":"\ud800"}"#))), Content::Raw(&text));
        let deep = |levels| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for levels in [63, 64, 65, 200] {
            let source = deep(levels);
            assert_eq!(args_of(&call(raw(&source))).view(), args_of(&call(source.as_str())).view(), "{levels}");
        }
        assert_ne!(args_of(&call(raw(&deep(64)))), args_of(&call(raw(&deep(65)))));
        // A text that holds JSON as deep as a record may be, and is too long to stay as it is.
        let long = format!("{}\"{}\"{}", "[".repeat(64), "x".repeat(60_000), "]".repeat(64));
        assert!(call(long.as_str()).len() < 60_000);
        let mut event = NativeEvent::default();
        event.put("labels", raw(&deep(64)));
        assert_eq!(event.json("tool_call", "i", "s").unwrap_err().reason, Reason::TooDeep);
    }

    #[test]
    fn parts_of_an_id_do_not_run_into_each_other() {
        assert_eq!(id_of(&["a", "bc"]), id_of(&["a", "bc"]));
        assert_ne!(id_of(&["a", "bc"]), id_of(&["ab", "c"]));
    }

    #[test]
    fn a_native_event_is_known_by_its_kind() {
        assert!(is_native(r#" {"kind":"to\u006fl"}"#));
        assert!(!is_native(r#"{"kind":"x"}"#) && !is_native(r#"[{"kind":"tool"}]"#) && !is_native("{}"));
    }
}
