//! goose: no results, only whether a call failed; a text reaches the model with a refusal alone.
//!
//! Installation: a plugin of two files.

mod transcript;

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{Hook, HookEvent, HookMessage, Object, Outcome, Say, What, message, shape};
use crate::install::{Install, InstallRoot, Mode, Target, WAIT_S, merged, pretty};

pub(super) const AGENT: Agent = Agent {
    name: "goose",
    title: "goose",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};

const HOOK: Hook = Hook {
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

const INSTALL: Install = Install::new("goose", targets);

/// No matcher: "*" is no pattern there, and an empty rule means all.
const EVENTS: [&str; 6] = ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart", "SessionEnd"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let folder = root.path(".agents/plugins/loopwarden", ".agents", "plugins/loopwarden");
    let command = root.command("")?;
    let lists =
        EVENTS.map(|event| json!({ event: [{ "hooks": [{ "type": "command", "command": command, "timeout": WAIT_S }] }] }));
    let plugin = json!({ "name": "loopwarden", "version": env!("CARGO_PKG_VERSION"),
        "description": "Asks loopwarden-hook before and after each call" });
    let hooks = json!({ "hooks": merged(&lists) });
    Ok(vec![
        Target::Own(folder.join("plugin.json"), pretty(&plugin), Mode::Plain),
        Target::Own(folder.join("hooks/hooks.json"), pretty(&hooks), Mode::Plain),
    ])
}
