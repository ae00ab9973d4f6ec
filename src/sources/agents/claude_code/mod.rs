//! Claude Code: calls have ids, failures an event of their own, and context reaches the model before and after a call.
//!
//! A refused call gets no event afterwards. `PostToolBatch` repeats what the events before it said.
//! Installation: entries in its settings, which run a program or post by themselves.

mod otlp;
mod transcript;

use jsonc_parser::json;
use loopwarden_guard::Capabilities;
use serde_json::Value as Json;

use crate::Agent;
use crate::hook::{AFTER, EVENT, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, shape};
use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const AGENT: Agent = Agent {
    name: "claude-code",
    title: "Claude Code",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};

const HOOK: Hook = Hook {
    can: Capabilities { context_before: true, stop: true, ..AFTER },
    lacks: &["A call that the program refuses as malformed is not seen."],
    event: EVENT,
    read,
    answer,
    nothing: None,
};

/// Beginnings of prompts that the program writes itself.
const NOT_A_PERSON: [&str; 7] = [
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
];

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_use_id");
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => What::After(call()?, Outcome::ok(body.raw("tool_response").map(Value::Given))),
        "PostToolUseFailure" => What::After(call()?, failure(body)),
        "PermissionDenied" => What::After(call()?, Outcome { word: "denied", ..Outcome::default() }),
        "UserPromptSubmit" => prompt(body)?,
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        "Stop" => shape::done(body)?,
        _ => return None,
    };
    let mut message = shape::read(body, what)?;
    message.key = body.text("prompt_id").filter(|_| !matches!(message.what, What::Start | What::End));
    if let What::After(_, outcome) = &mut message.what {
        outcome.duration_ms = body.amount("duration_ms");
    }
    Some(message)
}

/// A call that failed, was stopped by a person, or ran out of time.
pub(crate) fn failure<'a>(body: &Object<'a>) -> Outcome<'a> {
    let outcome = Outcome::error(body.text("error").unwrap_or_default());
    if body.is_true("is_interrupt") {
        return Outcome { word: "cancelled", error: None, exit_code: None, ..outcome };
    }
    let ran_out = outcome.error.as_deref().is_some_and(|said| said.contains("timed out after"));
    Outcome { word: if ran_out { "timeout" } else { "error" }, ..outcome }
}

fn prompt<'a>(body: &Object<'a>) -> Option<What<'a>> {
    let said = body.text("prompt")?;
    let is_person = !NOT_A_PERSON.iter().any(|beginning| said.trim_start().starts_with(beginning));
    is_person.then_some(What::Prompt(said))
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    Some(shape::with_stop(shape::nested(&heard.hook, say), say))
}

const INSTALL: Install = Install { variable: Some("CLAUDE_CONFIG_DIR"), posts: true, ..Install::new("claude", targets) };

/// Events of the agents that have all hooks of Claude Code; whether each is for a tool, which a matcher names.
pub(crate) const EVENTS: [(&str, bool); 7] = [
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("UserPromptSubmit", false),
    ("SessionStart", false),
    ("SessionEnd", false),
    ("Stop", false),
];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".claude/settings.local.json", ".claude", "settings.json");
    let command = root.command("");
    let command = if root.posts { command.ok() } else { Some(command?) };
    let run = command.map(|command| run(&command, WAIT_S));
    let url = root.url();
    let entry = |(event, matcher)| match &run {
        // Its http hooks do not run where a session begins.
        _ if root.posts && event != "SessionStart" => {
            Some((event, group(matcher, json!({ "type": "http", "url": (url.as_str()), "timeout": WAIT_S }))))
        }
        Some(run) => Some((event, group(matcher, run.clone()))),
        None => None,
    };
    Ok(Target::hooks(path, EVENTS.into_iter().filter_map(entry).collect()))
}
