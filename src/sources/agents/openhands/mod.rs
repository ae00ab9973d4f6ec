//! OpenHands: no ids, no times. A text reaches the model with a refusal alone.
//!
//! Installation: a file of hooks.

mod transcript;

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{Call, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, shape};
use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const AGENT: Agent = Agent {
    name: "openhands",
    title: "OpenHands",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};

const HOOK: Hook = Hook {
    can: Capabilities::DENY,
    lacks: &["Calls have no id.", "A nudge is a refusal, once.", "A project's hooks file hides that of the user."],
    event: &["event_type", "hook_event_name"],
    read,
    answer,
    nothing: None,
};

/// Fields that the program itself adds to the arguments of a call.
const ADDED: [&str; 3] = ["kind", "security_risk", "summary"];

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || {
        let args = body.object("tool_input").and_then(|input| input.without(&ADDED)).map(Value::Made);
        let args = args.or_else(|| body.raw("tool_input").map(Value::Given));
        Some(Call { tool: body.text("tool_name")?, id: None, args })
    };
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => What::After(call()?, after(body)),
        "UserPromptSubmit" => What::Prompt(body.text("message")?),
        "SessionStart" => What::Start,
        "SessionEnd" => What::End,
        _ => return None,
    };
    shape::read(body, what)
}

/// What was observed, without what the program adds. A shell's exit code stands in it.
fn after<'a>(body: &Object<'a>) -> Outcome<'a> {
    let result = body.object("tool_response").and_then(|response| response.without(&["kind"])).map(Value::Made);
    let result = result.or_else(|| body.raw("tool_response").map(Value::Given));
    let Some(response) = body.object("tool_response") else { return Outcome::ok(result) };
    let exit_code = response.integer("exit_code");
    let failed = response.is_true("is_error") || exit_code.is_some_and(|code| code != 0);
    if failed { Outcome { word: "error", result, exit_code, ..Outcome::default() } } else { Outcome::ok(result) }
}

fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    say.deny.then(|| json!({ "decision": "deny", "reason": say.text }))
}

const INSTALL: Install = Install::new("openhands", targets);

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 5] =
    [("PreToolUse", true), ("PostToolUse", true), ("UserPromptSubmit", false), ("SessionStart", false), ("SessionEnd", false)];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".openhands/hooks.json", ".openhands", "hooks.json");
    let handler = run(&root.command("")?, WAIT_S);
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
