//! Cline: a text goes into the next request. A refusal may end the task, so it is only given where the turn is to end.

use serde_json::{Value as Json, json};

use crate::hook_event::HookEvent;
use crate::hook_message::{Call, HookMessage, Outcome, Value, What, time};
use crate::object::Object;
use crate::say::Say;

pub(crate) fn told<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call =
        |part: &Object<'a>| Some(Call { tool: part.text("toolName")?, id: None, args: part.raw("parameters").map(Value::Given) });
    let what = match hook {
        "PreToolUse" => What::Before(call(&body.object("preToolUse")?)?),
        "PostToolUse" => {
            let part = body.object("postToolUse")?;
            What::After(call(&part)?, after(&part))
        }
        "UserPromptSubmit" => What::Prompt(body.object("userPromptSubmit")?.text("prompt")?),
        "TaskStart" => What::Start,
        "TaskComplete" | "TaskCancel" => What::End,
        _ => return None,
    };
    let mut told = HookMessage::new(body.text("taskId")?, what);
    told.time = time(body.raw("timestamp"));
    Some(told)
}

fn after<'a>(part: &Object<'a>) -> Outcome<'a> {
    let said = part.text("result").unwrap_or_default();
    let outcome = match part.raw("success").map(serde_json::value::RawValue::get) {
        Some("false") => Outcome::error(said),
        _ => Outcome::ok(Some(Value::Text(said))),
    };
    Outcome { duration_ms: part.amount("executionTimeMs"), ..outcome }
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
pub(crate) fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    if say.stop {
        return Some(json!({ "cancel": true, "errorMessage": say.text, "contextModification": say.text }));
    }
    Some(json!({ "cancel": false, "contextModification": say.text }))
}

/// No opinion: it takes an answer that says so.
pub(crate) fn nothing() -> Json {
    json!({ "cancel": false })
}
