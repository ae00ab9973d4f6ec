//! Codex: results without an exit code, so that only equal results say that nothing changes.
//!
//! One field that it does not know makes it drop the whole answer.

use serde_json::Value as Json;

use crate::agents::shape;
use crate::hook_event::HookEvent;
use crate::hook_message::{HookMessage, Outcome, Value, What};
use crate::object::Object;
use crate::say::Say;

pub(crate) fn told<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_use_id");
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => {
            let result = body.raw("tool_response").map(Value::Given);
            What::After(call()?, Outcome { word: "unknown", result, ..Outcome::default() })
        }
        "UserPromptSubmit" => What::Prompt(body.text("prompt")?),
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        "Stop" => shape::done(body)?,
        _ => return None,
    };
    let mut told = shape::told(body, what)?;
    told.key = body.text("turn_id").filter(|_| !matches!(told.what, What::Start | What::End));
    Some(told)
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
pub(crate) fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    if !say.deny {
        return Some(shape::nested(&heard.hook, say));
    }
    // Codex writes a full stop and the command behind it.
    let text = say.text.trim_end().trim_end_matches('.').to_owned();
    Some(shape::nested(&heard.hook, &Say { text, ..say.clone() }))
}
