//! goose: no results, only whether a call failed; a text reaches the model with a refusal alone.

use serde_json::{Value as Json, json};

use crate::agents::shape;
use crate::hook_event::HookEvent;
use crate::hook_message::{HookMessage, Outcome, What, message};
use crate::object::Object;
use crate::say::Say;

pub(crate) fn told<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
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
    shape::told(body, what)
}

pub(crate) fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    say.deny.then(|| json!({ "decision": "block", "reason": say.text }))
}
