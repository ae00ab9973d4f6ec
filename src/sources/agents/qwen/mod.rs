//! Qwen Code: Claude Code's events on tools of Gemini CLI. Context before a call never reaches the model, so texts go behind the result.
//!
//! `UserPromptSubmit` also comes after each result; only with `submitted_prompt` did a person speak.
//! Installation: the entries of Claude Code, in its own settings.

mod otlp;
mod transcript;

use jsonc_parser::json;
use serde_json::Value as Json;

use crate::agents::{claude_code, gemini};
use crate::hook::{AFTER, EVENT, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, shape};
use crate::install::{Install, InstallRoot, Target, WAIT_S, group, run};
use crate::{Agent, text::without_process_group};

pub(super) const AGENT: Agent = Agent {
    name: "qwen",
    title: "Qwen Code",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};

const HOOK: Hook =
    Hook { can: AFTER, lacks: &["A nudge reaches the model behind a result only."], event: EVENT, read, answer, nothing: None };

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || shape::call(body, "tool_use_id");
    let what = match hook {
        "PreToolUse" => What::Before(call()?),
        "PostToolUse" => What::After(call()?, Outcome::ok(gemini::content(body))),
        "PostToolUseFailure" => What::After(call()?, failure(body)),
        "PermissionDenied" => What::After(call()?, Outcome { word: "denied", ..Outcome::default() }),
        "UserPromptSubmit" => What::Prompt(body.text("submitted_prompt")?),
        "SessionStart" => shape::start(body)?,
        "SessionEnd" => What::End,
        "Stop" => shape::done(body)?,
        _ => return None,
    };
    let mut message = shape::read(body, what)?;
    if let What::After(_, outcome) = &mut message.what {
        outcome.duration_ms = body.amount("duration_ms");
    }
    Some(message)
}

fn failure<'a>(body: &Object<'a>) -> Outcome<'a> {
    let mut outcome = claude_code::failure(body);
    outcome.error = outcome.error.map(without_process_group);
    outcome.result = outcome.error.clone().map(Value::Text);
    outcome
}

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    (say.deny || !heard.is_before).then(|| shape::nested(&heard.hook, say))
}

const INSTALL: Install = Install { posts: true, ..Install::new("qwen", targets) };

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".qwen/settings.json", ".qwen", "settings.json");
    let handler = if root.posts {
        json!({ "type": "http", "url": (root.url().as_str()), "timeout": WAIT_S })
    } else {
        // Milliseconds here, and seconds where it posts.
        run(&root.command("")?, WAIT_S * 1000)
    };
    Ok(Target::hooks(path, claude_code::EVENTS.map(|(event, matcher)| (event, group(matcher, handler.clone()))).to_vec()))
}
