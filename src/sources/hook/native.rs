//! A message of an agent to its hook, as a native event.

use loopwarden_core::event::{EventTime, SCHEMA_VERSION, is_name};
use loopwarden_core::identity::{hash_parts, hash_text};
use loopwarden_core::native::{EventAgent, EventError, NativeEvent};
use serde_json::value::RawValue;

use crate::hook::message::{Call, HookMessage, Outcome, Value, What};

/// The event; `None` where a name of it is none. `fresh` is a number that was never given before: it tells two equal calls apart where
/// the agent gives neither an id nor a time.
pub(crate) fn event(message: &HookMessage<'_>, framework: &'static str, fresh: u64) -> Option<Box<RawValue>> {
    let mut event = NativeEvent::default();
    event.put("v", SCHEMA_VERSION);
    let id_of_agent = message.agent_id.as_deref().filter(|id| is_name(id));
    event.put(
        "agent",
        EventAgent {
            framework: Some(framework),
            id: id_of_agent,
            kind: message.agent_type.as_deref(),
            model: message.model.as_deref(),
            // Only an agent that was started inside of the session has an id.
            root_id: id_of_agent.map(|_| &*message.session_id),
        },
    );
    event.put("time", message.time.map(|EventTime(ms)| ms));
    let kind = match &message.what {
        What::Before(call) => {
            put_call(&mut event, call);
            "tool_call"
        }
        What::After(call, outcome) => {
            put_call(&mut event, call);
            put_outcome(&mut event, outcome);
            "tool_result"
        }
        What::Prompt(said) => put_message(&mut event, "user", said),
        What::Done(said) => {
            event.put("final", true);
            put_message(&mut event, "assistant", said)
        }
        What::Start => "session_start",
        What::End => "session_end",
    };
    RawValue::from_string(event.json(kind, &id(message, fresh), &message.session_id).ok()?).ok()
}

fn put_call(event: &mut NativeEvent<'_>, call: &Call<'_>) {
    event.put("tool", &call.tool);
    event.put("call_id", call.id.as_deref().filter(|id| is_name(id)));
    event.content("args", &call.args);
}

fn put_outcome(event: &mut NativeEvent<'_>, outcome: &Outcome<'_>) {
    event.put("outcome", outcome.word);
    event.content("result", &outcome.result);
    // An exit code alone is no error.
    if let Some(message) = outcome.error.as_deref() {
        event.error(&EventError { exit_code: outcome.exit_code, message: Some(message), kind: None });
    }
    event.put("duration_ms", outcome.duration_ms);
}

fn put_message(event: &mut NativeEvent<'_>, role: &'static str, said: &str) -> &'static str {
    event.put("role", role);
    event.text(said);
    "message"
}

/// The id, equal where the same message comes again: by a second installation of the hook, or sent twice.
fn id(message: &HookMessage<'_>, fresh: u64) -> String {
    let (phase, call, said) = match &message.what {
        What::Before(call) => ("call", Some(call), ""),
        What::After(call, _) => ("result", Some(call), ""),
        What::Prompt(said) => ("prompt", None, &**said),
        What::Done(said) => ("done", None, &**said),
        What::Start => ("start", None, ""),
        What::End => ("end", None, ""),
    };
    let agent = message.agent_id.as_deref().unwrap_or_default();
    if let Some(call_id) = call.and_then(|call| call.id.as_deref()) {
        let slash = if agent.is_empty() { "" } else { "/" };
        let id = format!("{agent}{slash}{call_id}/{phase}");
        return if is_name(&id) { id } else { format!("{:032x}/{phase}", hash_text(&id).hash128().0) };
    }
    let when = match (&message.time, &message.key) {
        (None, None) => format!("fresh {fresh}"),
        (time, key) => format!("{} {}", time.map_or(-1, |EventTime(ms)| ms), key.as_deref().unwrap_or_default()),
    };
    let (tool, args) = call.map_or(("", ""), |call| (&*call.tool, call.args.as_ref().map_or("", Value::source)));
    // With a line end between them, one part cannot run into the next: a name has none.
    let digest = hash_parts(&[agent, "\n", tool, "\n", &when, "\n", args, "\n", said]);
    format!("{:032x}/{phase}", digest.hash128().0)
}
