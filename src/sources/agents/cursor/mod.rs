//! Cursor: flat answers. A sub-agent is a conversation of its own.
//!
//! Installation: a file of hooks with a version, without groups.

use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{AFTER, EVENT, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, shape};
use crate::install::{Edit, Install, InstallRoot, Target, WAIT_S};

pub(super) const AGENT: Agent =
    Agent { name: "cursor", title: "Cursor", hook: Some(HOOK), install: Some(INSTALL), log: None, telemetry: None };

const HOOK: Hook = Hook {
    can: AFTER,
    lacks: &["A nudge reaches the model behind a result only.", "It may read Claude Code's hooks too: install one of the two."],
    event: EVENT,
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_use_id");
    let what = match hook {
        "preToolUse" => What::Before(call()?),
        "postToolUse" => What::After(call()?, after(body)),
        "postToolUseFailure" => What::After(call()?, failure(body)),
        "beforeSubmitPrompt" => What::Prompt(body.text("prompt")?),
        "sessionStart" => What::Start,
        "sessionEnd" => What::End,
        _ => return None,
    };
    let mut message = HookMessage::new(body.text_of(&["conversation_id", "session_id"])?, what);
    message.model = body.text("model");
    message.key = body.text("generation_id").filter(|_| !matches!(message.what, What::Start | What::End));
    if let What::After(_, outcome) = &mut message.what {
        outcome.duration_ms = body.amount("duration");
    }
    Some(message)
}

/// The result is JSON inside of a text.
fn after<'a>(body: &Object<'a>) -> Outcome<'a> {
    let Some(output) = body.raw("tool_output") else { return Outcome::ok(None) };
    let Some(said) = body.text("tool_output") else { return Outcome::ok(Some(Value::Given(output))) };
    let exit_code = Object::read(&said).and_then(|output| output.integer("exitCode"));
    match exit_code {
        Some(code) if code != 0 => Outcome { exit_code: Some(code), ..Outcome::error(said) },
        _ => Outcome::ok(Some(Value::Text(said))),
    }
}

fn failure<'a>(body: &Object<'a>) -> Outcome<'a> {
    let outcome = Outcome::error(body.text("error_message").unwrap_or_default());
    match body.text("failure_type").as_deref() {
        // A refusal of ours comes back as this.
        Some("permission_denied") => Outcome { word: "denied", error: None, exit_code: None, ..outcome },
        Some("timeout") => Outcome { word: "timeout", ..outcome },
        _ => outcome,
    }
}

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    if say.deny {
        // Its documentation names the second; version 3.9 was seen to give the model the first.
        return Some(json!({ "permission": "deny", "user_message": say.text, "agent_message": say.text }));
    }
    (!heard.is_before).then(|| json!({ "additional_context": say.text }))
}

const INSTALL: Install = Install::new("cursor-agent", targets);

/// One generic event per call: a shell call has special ones besides, and would count twice.
const EVENTS: [&str; 4] = ["preToolUse", "postToolUse", "postToolUseFailure", "beforeSubmitPrompt"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    use jsonc_parser::json;

    let path = root.path(".cursor/hooks.json", ".cursor", "hooks.json");
    let run = json!({ "command": (root.command("")?), "timeout": WAIT_S });
    let entries = EVENTS.map(|event| (event, run.clone())).to_vec();
    Ok(vec![Target::Shared(path, Edit { version: Some(1), under: "hooks", entries })])
}
