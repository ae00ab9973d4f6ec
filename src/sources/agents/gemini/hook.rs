//! Gemini CLI: calls without ids. A text reaches the model with a refusal or behind a result.

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::hook::contract::{AFTER, EVENT, Hook};
use crate::hook::message::{HookMessage, Outcome, Value, What, message};
use crate::hook::object::{Object, text};
use crate::text::{FUNCTION_SHELL, without_process_group};
use crate::{hook::event::HookEvent, hook::say::Say, hook::shape};

pub(super) const HOOK: Hook = Hook {
    can: Capabilities { stop: true, ..AFTER },
    lacks: &["Calls have no id.", "A nudge reaches the model behind a result only.", "Sub-agents cannot be told apart."],
    event: EVENT,
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "");
    let what = match hook {
        "BeforeTool" => What::Before(call()?),
        "AfterTool" => What::After(call()?, outcome(body)),
        "BeforeAgent" => What::Prompt(body.text("prompt")?),
        "AfterAgent" => What::Done(body.text("prompt_response")?),
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        _ => return None,
    };
    shape::read(body, what)
}

fn outcome<'a>(body: &Object<'a>) -> Outcome<'a> {
    let error = body.object("tool_response").and_then(|response| response.raw("error")).and_then(message);
    match (error, content(body)) {
        (Some(error), result) => Outcome { result, ..Outcome::error(error) },
        (None, Some(Value::Text(said))) if is_shell(body) => Outcome::of_shell_text(said),
        (None, result) => Outcome::ok(result),
    }
}

/// What the model reads of a result: `llmContent`, a text in most cases, else the response as it is.
pub(crate) fn content<'a>(body: &Object<'a>) -> Option<Value<'a>> {
    let response = body.raw("tool_response")?;
    let content = body.object("tool_response").and_then(|response| response.raw("llmContent")).unwrap_or(response);
    let read = |said| if is_shell(body) { without_process_group(said) } else { said };
    Some(text(content).map_or(Value::Given(content), |said| Value::Text(read(said))))
}

fn is_shell(body: &Object<'_>) -> bool {
    body.text("tool_name").as_deref() == Some(FUNCTION_SHELL)
}

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    if say.deny {
        return Some(shape::with_stop(json!({ "decision": "deny", "reason": say.text }), say));
    }
    (!heard.is_before).then(|| shape::with_stop(shape::nested(&heard.hook, say), say))
}
