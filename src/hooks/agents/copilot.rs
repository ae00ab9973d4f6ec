//! GitHub Copilot: two dialects, by the spelling of the event's name. No call ids; a text reaches the model behind a result.
//!
//! VS Code sends the second dialect with ids of calls, and reads Claude Code's nested answer.

use serde_json::{Value as Json, json};

use crate::agents::shape;
use crate::hook_event::HookEvent;
use crate::hook_message::{Call, HookMessage, Outcome, Value, What, message, time};
use crate::object::Object;
use crate::say::Say;

pub(crate) fn told<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || {
        let args = body.raw_of(&["toolArgs", "tool_input"]).map(Value::Given);
        Some(Call { tool: body.text_of(&["toolName", "tool_name"])?, id: body.text("tool_use_id"), args })
    };
    let what = match hook {
        "preToolUse" | "PreToolUse" => What::Before(call()?),
        "postToolUse" | "PostToolUse" => What::After(call()?, after(body)),
        "postToolUseFailure" | "PostToolUseFailure" => {
            What::After(call()?, Outcome::error(body.raw("error").and_then(message).unwrap_or_default()))
        }
        "userPromptSubmitted" | "UserPromptSubmit" => What::Prompt(body.text("prompt")?),
        "sessionStart" | "SessionStart" => shape::start(body)?,
        "sessionEnd" | "SessionEnd" => What::End,
        _ => return None,
    };
    let mut told = HookMessage::new(body.text_of(&["sessionId", "session_id"])?, what);
    told.time = time(body.raw("timestamp"));
    Some(told)
}

fn after<'a>(body: &Object<'a>) -> Outcome<'a> {
    let named = body.object("toolResult").or_else(|| body.object("tool_result"));
    let Some(result) = named else { return Outcome::ok(body.raw("tool_response").map(Value::Given)) };
    let said = result.text_of(&["textResultForLlm", "text_result_for_llm"]).unwrap_or_default();
    match result.text_of(&["resultType", "result_type"]).as_deref() {
        Some("failure" | "error") => Outcome::error(said),
        Some("denied" | "rejected") => Outcome { word: "denied", ..Outcome::ok(Some(Value::Text(said))) },
        Some("timeout") => Outcome { word: "timeout", ..Outcome::error(said) },
        _ => Outcome::ok(Some(Value::Text(said))),
    }
}

pub(crate) fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    match (say.deny, heard.is_nested) {
        (false, _) if heard.is_before => None,
        (_, true) => Some(shape::nested(&heard.hook, say)),
        (true, false) => Some(json!({ "permissionDecision": "deny", "permissionDecisionReason": say.text })),
        (false, false) => Some(json!({ "additionalContext": say.text })),
    }
}
