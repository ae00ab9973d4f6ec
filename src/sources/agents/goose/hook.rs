//! goose: no results, only whether a call failed; a text reaches the model with a refusal alone.

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::hook::message::{HookMessage, Outcome, What, message};
use crate::{hook::contract::Hook, hook::event::HookEvent, hook::object::Object, hook::say::Say, hook::shape};

pub(super) const HOOK: Hook = Hook {
    can: Capabilities::DENY,
    lacks: &["Results are not told, only failures.", "A nudge is a refusal, once."],
    event: &["event", "hook_event_name"],
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_call_id");
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => What::After(call()?, Outcome::ok(None)),
        "PostToolUseFailure" => {
            let error = body.raw("error").and_then(message).unwrap_or("failed".into());
            What::After(call()?, Outcome { result: None, ..Outcome::error(error) })
        }
        "UserPromptSubmit" => What::Prompt(body.text("message")?),
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        "Stop" => shape::done(body)?,
        _ => return None,
    };
    shape::read(body, what)
}

fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    say.deny.then(|| json!({ "decision": "block", "reason": say.text }))
}
