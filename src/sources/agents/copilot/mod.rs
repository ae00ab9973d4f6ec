//! GitHub Copilot: two dialects, by the spelling of the event's name. No call ids; a text reaches the model behind a result.
//!
//! VS Code sends the second dialect with ids of calls, and reads Claude Code's nested answer.
//! Installation: a file of our own. Its hooks do not name the event, so that the command does.

use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{AFTER, Call, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, message, shape, time};
use crate::install::{Install, InstallRoot, Mode, Target, WAIT_S, merged, pretty};

pub(super) const AGENT: Agent =
    Agent { name: "copilot", title: "GitHub Copilot", hook: Some(HOOK), install: Some(INSTALL), log: None, telemetry: None };

const HOOK: Hook = Hook {
    can: AFTER,
    lacks: &[
        "Calls have no id.",
        "It reads Claude Code's project settings too: install one of the two per project.",
        "A nudge reaches the model behind a result only.",
    ],
    event: &["hook_event_name", "hookEventName", "hook"],
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
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
    let mut message = HookMessage::new(body.text_of(&["sessionId", "session_id"])?, what);
    message.time = time(body.raw("timestamp"));
    Some(message)
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

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    match (say.deny, heard.is_nested) {
        (false, _) if heard.is_before => None,
        (_, true) => Some(shape::nested(&heard.hook, say)),
        (true, false) => Some(json!({ "permissionDecision": "deny", "permissionDecisionReason": say.text })),
        (false, false) => Some(json!({ "additionalContext": say.text })),
    }
}

const INSTALL: Install = Install { variable: Some("COPILOT_HOME"), ..Install::new("copilot", targets) };

const EVENTS: [&str; 6] =
    ["preToolUse", "postToolUse", "postToolUseFailure", "userPromptSubmitted", "sessionStart", "sessionEnd"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".github/hooks/loopwarden.json", ".copilot", "hooks/loopwarden.json");
    let list = |event: &&str| {
        let bash = root.command(event)?;
        Ok(json!({ *event: [{ "type": "command", "bash": bash, "timeoutSec": WAIT_S }] }))
    };
    let lists = EVENTS.iter().map(list).collect::<Result<Vec<_>, String>>()?;
    Ok(vec![Target::Own(path, pretty(&json!({ "version": 1, "hooks": merged(&lists) })), Mode::Plain)])
}
