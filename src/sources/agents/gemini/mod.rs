//! Gemini CLI: calls without ids. A text reaches the model with a refusal or behind a result.
//!
//! Installation: entries in its settings, with a name.

pub(super) mod otlp;
mod stream;
mod transcript;

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{AFTER, EVENT, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, message, shape, text};
use crate::install::{Install, InstallRoot, Target, WAIT_S, group};
use crate::text::{FUNCTION_SHELL, without_process_group};

pub(super) const AGENT: Agent = Agent {
    name: "gemini",
    title: "Gemini CLI",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};

const HOOK: Hook = Hook {
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

const INSTALL: Install = Install::new("gemini", targets);

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 6] = [
    ("BeforeTool", true),
    ("AfterTool", true),
    ("BeforeAgent", false),
    ("AfterAgent", false),
    ("SessionStart", false),
    ("SessionEnd", false),
];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    use jsonc_parser::json;

    let path = root.path(".gemini/settings.json", ".gemini", "settings.json");
    let handler = json!({ "name": "loopwarden", "type": "command", "command": (root.command("")?), "timeout": (WAIT_S * 1000) });
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
