//! What was told, as a native event.

use std::borrow::Cow;

use loopwarden_core::event::{EventTime, is_name};
use loopwarden_core::identity::{hash_parts, hash_text};
use loopwarden_core::limits::{ERROR_CHARS_MAX, RECORD_BYTES_MAX_DEFAULT, TEXT_CHARS_MAX};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::hook_message::{Call, HookMessage, Outcome, Value, What};

/// Largest event that is made. Bytes. Of a larger one, arguments and result go as hashes: equal ones are still seen.
const EVENT_BYTES_MAX: usize = RECORD_BYTES_MAX_DEFAULT - 4 * 1024;

#[derive(Default, Serialize)]
struct Event<'a> {
    v: u32,
    id: String,
    kind: &'static str,
    session_id: &'a str,
    agent: Agent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a Value<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Value<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(rename = "final", skip_serializing_if = "std::ops::Not::not")]
    is_final: bool,
}

#[derive(Default, Serialize)]
struct Agent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    framework: &'static str,
}

#[derive(Serialize)]
struct Error<'a> {
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i64>,
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Given(raw) => raw.serialize(serializer),
            Self::Made(raw) => raw.serialize(serializer),
            Self::Text(text) => text.serialize(serializer),
        }
    }
}

impl Value<'_> {
    fn source(&self) -> &str {
        match self {
            Self::Given(raw) => raw.get(),
            Self::Made(raw) => raw.get(),
            Self::Text(text) => text,
        }
    }
}

/// The event; `None` where a name of it is none. `fresh` is a number that was never given before: it tells two equal calls apart where
/// the agent gives neither an id nor a time.
pub(crate) fn event(told: &HookMessage<'_>, framework: &'static str, fresh: u64) -> Option<Box<RawValue>> {
    let is_sound = is_name(&told.session_id)
        && match &told.what {
            What::Before(call) | What::After(call, _) => is_name(&call.tool),
            _ => true,
        };
    if !is_sound {
        return None;
    }
    let name = |text: &'_ Option<Cow<'_, str>>| text.as_deref().is_some_and(is_name);
    let mut event = Event {
        v: 1,
        id: id(told, fresh),
        session_id: &told.session_id,
        agent: Agent {
            id: told.agent_id.as_deref().filter(|_| name(&told.agent_id)),
            kind: told.agent_type.as_deref(),
            model: told.model.as_deref(),
            framework,
        },
        time: told.time.map(|EventTime(ms)| ms),
        ..Event::default()
    };
    match &told.what {
        What::Before(call) => {
            event.kind = "tool_call";
            put_call(&mut event, call);
        }
        What::After(call, outcome) => {
            event.kind = "tool_result";
            put_call(&mut event, call);
            put_outcome(&mut event, outcome);
        }
        What::Prompt(said) => put_message(&mut event, "user", said),
        What::Done(said) => {
            put_message(&mut event, "assistant", said);
            event.is_final = true;
        }
        What::Start => event.kind = "session_start",
        What::End => event.kind = "session_end",
    }
    let made = to_raw_value(&event).ok()?;
    if made.get().len() <= EVENT_BYTES_MAX {
        return Some(made);
    }
    event.args_sha256 = event.args.take().map(|args| hash_text(args.source()).to_string());
    event.result_bytes = event.result.map(|result| result.source().len());
    event.result_sha256 = event.result.take().map(|result| hash_text(result.source()).to_string());
    to_raw_value(&event).ok().filter(|made| made.get().len() <= EVENT_BYTES_MAX)
}

fn put_call<'a>(event: &mut Event<'a>, call: &'a Call<'_>) {
    event.tool = Some(&call.tool);
    event.call_id = call.id.as_deref().filter(|id| is_name(id));
    event.args = call.args.as_ref();
}

fn put_outcome<'a>(event: &mut Event<'a>, outcome: &'a Outcome<'_>) {
    event.outcome = Some(outcome.word);
    event.result = outcome.result.as_ref();
    event.error =
        outcome.error.as_deref().map(|said| Error { message: cut(said, ERROR_CHARS_MAX), exit_code: outcome.exit_code });
    event.duration_ms = outcome.duration_ms;
}

fn put_message<'a>(event: &mut Event<'a>, role: &'static str, said: &'a str) {
    event.kind = "message";
    event.role = Some(role);
    event.text = Some(cut(said, TEXT_CHARS_MAX));
}

fn cut(text: &str, chars_max: usize) -> &str {
    text.char_indices().nth(chars_max).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// The id, equal where the same message comes again: by a second installation of the hook, or sent twice.
fn id(told: &HookMessage<'_>, fresh: u64) -> String {
    let (phase, call, said) = match &told.what {
        What::Before(call) => ("call", Some(call), ""),
        What::After(call, _) => ("result", Some(call), ""),
        What::Prompt(said) => ("prompt", None, &**said),
        What::Done(said) => ("done", None, &**said),
        What::Start => ("start", None, ""),
        What::End => ("end", None, ""),
    };
    let agent = told.agent_id.as_deref().unwrap_or_default();
    if let Some(call_id) = call.and_then(|call| call.id.as_deref()) {
        let slash = if agent.is_empty() { "" } else { "/" };
        let id = format!("{agent}{slash}{call_id}/{phase}");
        return if is_name(&id) { id } else { format!("{:032x}/{phase}", hash_text(&id).hash128().0) };
    }
    let when = match (&told.time, &told.key) {
        (None, None) => format!("fresh {fresh}"),
        (time, key) => format!("{} {}", time.map_or(-1, |EventTime(ms)| ms), key.as_deref().unwrap_or_default()),
    };
    let (tool, args) = call.map_or(("", ""), |call| (&*call.tool, call.args.as_ref().map_or("", Value::source)));
    // With a line end between them, one part cannot run into the next: a name has none.
    let digest = hash_parts(&[agent, "\n", tool, "\n", &when, "\n", args, "\n", said]);
    format!("{:032x}/{phase}", digest.hash128().0)
}
