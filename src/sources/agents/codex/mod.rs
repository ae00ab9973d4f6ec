//! Codex: results without an exit code, so that only equal results say that nothing changes.
//!
//! One field that it does not know makes it drop the whole answer.
//! Installation: a file of hooks, which its user has to trust.

mod otlp;
mod shell_output;
mod transcript;

use loopwarden_guard::Capabilities;
use serde_json::Value as Json;

use crate::Agent;
use crate::hook::{AFTER, EVENT, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, shape};
use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const AGENT: Agent = Agent {
    name: "codex",
    title: "Codex",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};

const HOOK: Hook = Hook {
    can: Capabilities { context_before: true, ..AFTER },
    lacks: &[
        "Hooks run only after you have trusted them: open /hooks in Codex.",
        "Results come without an exit code, so a failure is known by its text alone.",
        "Text typed into a running command is not seen.",
    ],
    event: EVENT,
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
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
    let mut message = shape::read(body, what)?;
    message.key = body.text("turn_id").filter(|_| !matches!(message.what, What::Start | What::End));
    Some(message)
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    if !say.deny {
        return Some(shape::nested(&heard.hook, say));
    }
    // Codex writes a full stop and the command behind it.
    let text = say.text.trim_end().trim_end_matches('.').to_owned();
    Some(shape::nested(&heard.hook, &Say { text, ..say.clone() }))
}

const INSTALL: Install = Install {
    variable: Some("CODEX_HOME"),
    todo: Some("open /hooks in Codex and trust them; until then it skips them without a word"),
    ..Install::new("codex", targets)
};

/// Its events; whether each is for a tool, which a matcher names.
const EVENTS: [(&str, bool); 5] =
    [("PreToolUse", true), ("PostToolUse", true), ("UserPromptSubmit", false), ("SessionStart", false), ("Stop", false)];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".codex/hooks.json", ".codex", "hooks.json");
    let handler = run(&root.command("")?, WAIT_S);
    Ok(Target::hooks(path, EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
