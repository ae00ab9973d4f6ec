//! What an agent tells its hook, whichever agent it is.

use std::borrow::Cow;

use loopwarden_core::event::EventTime;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::hook::object::{Object, text};
use crate::text::{shell_exit_code, since_1970};

/// One message of an agent to its hook.
#[derive(Debug)]
pub(crate) struct HookMessage<'a> {
    pub(crate) session_id: Cow<'a, str>,
    /// The agent inside of the session; absent for the main one.
    pub(crate) agent_id: Option<Cow<'a, str>>,
    /// Its kind, as the program names it.
    pub(crate) agent_type: Option<Cow<'a, str>>,
    pub(crate) model: Option<Cow<'a, str>>,
    /// When, by the agent's clock.
    pub(crate) time: Option<EventTime>,
    /// An id of the agent that is the same where the same message comes again: a turn, a prompt, a step.
    pub(crate) key: Option<Cow<'a, str>>,
    pub(crate) what: What<'a>,
}

#[derive(Debug)]
pub(crate) enum What<'a> {
    /// A call is about to run.
    Before(Call<'a>),
    After(Call<'a>, Outcome<'a>),
    Prompt(Cow<'a, str>),
    /// The agent says that it is done.
    Done(Cow<'a, str>),
    Start,
    End,
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) tool: Cow<'a, str>,
    /// The id that its result has too.
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) args: Option<Value<'a>>,
}

/// A value that is passed on.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value<'a> {
    /// As the agent wrote it.
    Given(&'a RawValue),
    Made(Box<RawValue>),
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// What equal messages have in common.
    pub(crate) fn source(&self) -> &str {
        match self {
            Self::Given(raw) => raw.get(),
            Self::Made(raw) => raw.get(),
            Self::Text(text) => text,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outcome<'a> {
    /// As in an event.
    pub(crate) word: &'static str,
    pub(crate) result: Option<Value<'a>>,
    pub(crate) error: Option<Cow<'a, str>>,
    /// Exit code of the process.
    pub(crate) exit_code: Option<i64>,
    /// Milliseconds.
    pub(crate) duration_ms: Option<f64>,
}

impl<'a> HookMessage<'a> {
    /// Something that happened in a session, and no more.
    pub(crate) const fn new(session_id: Cow<'a, str>, what: What<'a>) -> Self {
        Self { session_id, agent_id: None, agent_type: None, model: None, time: None, key: None, what }
    }
}

impl<'a> Outcome<'a> {
    pub(crate) fn ok(result: Option<Value<'a>>) -> Self {
        Self { word: "ok", result, ..Self::default() }
    }

    /// It failed. The text of a failure is its result too: that is what the model reads.
    pub(crate) fn error(said: Cow<'a, str>) -> Self {
        let exit_code = exit_code(&said);
        Self { word: "error", result: Some(Value::Text(said.clone())), error: Some(said), exit_code, duration_ms: None }
    }

    /// What a shell call returned: an exit code other than 0 behind the output is a failure.
    pub(crate) fn of_shell_text(said: Cow<'a, str>) -> Self {
        match shell_exit_code(&said) {
            Some(code) if code != 0 => Self { exit_code: Some(code), ..Self::error(said) },
            _ => Self::ok(Some(Value::Text(said))),
        }
    }
}

/// RFC 3339, or milliseconds since 1970 as a number or as digits.
pub(crate) fn time(value: Option<&RawValue>) -> Option<EventTime> {
    let value = value?;
    match text(value) {
        Some(text) => EventTime::parse_rfc3339(&text).or_else(|| text.parse().ok().and_then(since_1970)),
        None => value.get().parse().ok().and_then(since_1970),
    }
}

/// The exit code in a text: a line that begins with `Exit code 3` or `Exit Code: 3`.
pub(crate) fn exit_code(said: &str) -> Option<i64> {
    let after = |line: &str| {
        let rest = line.strip_prefix("Exit code ").or_else(|| line.strip_prefix("Exit Code: "))?;
        rest.trim().parse().ok()
    };
    said.lines().find_map(after)
}

/// What `{"message": …}` or a plain text says.
pub(crate) fn message(value: &RawValue) -> Option<Cow<'_, str>> {
    text(value).or_else(|| Object::read(value.get())?.text_of(&["message", "error"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_read_at_the_beginning_of_a_line_only() {
        for (said, code) in [
            ("Exit code 3\nout", Some(3)),
            ("Output: o\nExit Code: 3\n", Some(3)),
            ("the Exit code 3", None),
            ("Exit code three", None),
            ("", None),
        ] {
            assert_eq!(exit_code(said), code, "{said:?}");
        }
    }

    #[test]
    fn a_time_is_a_text_or_a_number() {
        let read = |json: &str| time(Some(&RawValue::from_string(json.to_owned()).unwrap()));
        assert_eq!(read("\"1970-01-01T00:00:01Z\""), Some(EventTime(1000)));
        assert_eq!((read("1000"), read("\"1000\"")), (Some(EventTime(1000)), Some(EventTime(1000))));
        assert_eq!((read("-1"), read("1.5"), read("[]"), read("\"soon\""), time(None)), (None, None, None, None, None));
    }
}
