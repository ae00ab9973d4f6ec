//! Cline: a text goes into the next request. A refusal may end the task, so it is only given where the turn is to end.
//!
//! Installation: a script for each event.

mod tags;
mod transcript;

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{Call, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, time};
use crate::install::{Install, InstallRoot, Mode, Target};

pub(super) const AGENT: Agent = Agent {
    name: "cline",
    title: "Cline",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};

const HOOK: Hook = Hook {
    can: Capabilities { context_before: true, context_after: true, stop: true, ..Capabilities::NOTHING },
    lacks: &["Calls have no id.", "A call cannot be refused without ending the task.", "macOS and Linux only."],
    event: &["hookName"],
    read,
    answer,
    nothing: Some(nothing),
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call =
        |part: &Object<'a>| Some(Call { tool: part.text("toolName")?, id: None, args: part.raw("parameters").map(Value::Given) });
    let what = match hook {
        "PreToolUse" => What::Before(call(&body.object("preToolUse")?)?),
        "PostToolUse" => {
            let part = body.object("postToolUse")?;
            What::After(call(&part)?, after(&part))
        }
        "UserPromptSubmit" => What::Prompt(body.object("userPromptSubmit")?.text("prompt")?),
        "TaskStart" => What::Start,
        "TaskComplete" | "TaskCancel" => What::End,
        _ => return None,
    };
    let mut message = HookMessage::new(body.text("taskId")?, what);
    message.time = time(body.raw("timestamp"));
    Some(message)
}

fn after<'a>(part: &Object<'a>) -> Outcome<'a> {
    let said = part.text("result").unwrap_or_default();
    let outcome = match part.raw("success").map(serde_json::value::RawValue::get) {
        Some("false") => Outcome::error(said),
        _ => Outcome::ok(Some(Value::Text(said))),
    };
    Outcome { duration_ms: part.amount("executionTimeMs"), ..outcome }
}

#[expect(clippy::unnecessary_wraps, reason = "one type for all agents")]
fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    if say.stop {
        return Some(json!({ "cancel": true, "errorMessage": say.text, "contextModification": say.text }));
    }
    Some(json!({ "cancel": false, "contextModification": say.text }))
}

/// No opinion: it takes an answer that says so.
fn nothing() -> Json {
    json!({ "cancel": false })
}

const INSTALL: Install = Install {
    program: None,
    folder: Some("Documents/Cline"),
    variable: None,
    posts: false,
    todo: Some("switch hooks on in its settings"),
    targets,
};

const EVENTS: [&str; 6] = ["PreToolUse", "PostToolUse", "UserPromptSubmit", "TaskStart", "TaskComplete", "TaskCancel"];

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let folder = root.path(".clinerules/hooks", "Documents", "Cline/Hooks");
    let script = format!("#!/bin/sh\n{}\n", root.command("")?).into_bytes();
    Ok(EVENTS.map(|event| Target::Own(folder.join(event), script.clone(), Mode::Program)).to_vec())
}
