//! Claude Code: calls have ids, failures an event of their own, and context reaches the model before and after a call.
//!
//! A refused call gets no event afterwards. `PostToolBatch` repeats what the events before it said.

use loopwarden_guard::Capabilities;
use serde_json::Value as Json;

use crate::hook::contract::{AFTER, EVENT, Hook};
use crate::hook::message::{HookMessage, Outcome, Value, What};
use crate::{hook::event::HookEvent, hook::object::Object, hook::say::Say, hook::shape};

pub(super) const HOOK: Hook = Hook {
    can: Capabilities { context_before: true, stop: true, ..AFTER },
    lacks: &["A call that the program refuses as malformed is not seen."],
    event: EVENT,
    read,
    answer,
    nothing: None,
};

/// Beginnings of prompts that the program writes itself.
const NOT_A_PERSON: [&str; 7] = [
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
];

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_use_id");
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => What::After(call()?, Outcome::ok(body.raw("tool_response").map(Value::Given))),
        "PostToolUseFailure" => What::After(call()?, failure(body)),
        "PermissionDenied" => What::After(call()?, Outcome { word: "denied", ..Outcome::default() }),
        "UserPromptSubmit" => prompt(body)?,
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        "Stop" => shape::done(body)?,
        _ => return None,
    };
    let mut message = shape::read(body, what)?;
    message.key = body.text("prompt_id").filter(|_| !matches!(message.what, What::Start | What::End));
    if let What::After(_, outcome) = &mut message.what {
        outcome.duration_ms = body.amount("duration_ms");
    }
    Some(message)
}

/// A call that failed, was stopped by a person, or ran out of time.
pub(crate) fn failure<'a>(body: &Object<'a>) -> Outcome<'a> {
    let outcome = Outcome::error(body.text("error").unwrap_or_default());
    if body.is_true("is_interrupt") {
        return Outcome { word: "cancelled", error: None, exit_code: None, ..outcome };
    }
    let ran_out = outcome.error.as_deref().is_some_and(|said| said.contains("timed out after"));
    Outcome { word: if ran_out { "timeout" } else { "error" }, ..outcome }
}

fn prompt<'a>(body: &Object<'a>) -> Option<What<'a>> {
    let said = body.text("prompt")?;
    let is_person = !NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning));
    is_person.then_some(What::Prompt(said))
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    Some(shape::with_stop(shape::nested(&heard.hook, say), say))
}
