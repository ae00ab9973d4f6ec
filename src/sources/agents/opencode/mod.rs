//! opencode: a plugin of ours inside of the agent tells and obeys, in words of our own.
//!
//! Installation: a plugin.

mod transcript;

use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{AFTER, Call, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What};
use crate::install::{Install, InstallRoot, Mode, Target};

pub(super) const AGENT: Agent = Agent {
    name: "opencode",
    title: "opencode",
    hook: Some(HOOK),
    install: Some(INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};

const HOOK: Hook = Hook {
    can: AFTER,
    lacks: &["The plugin does not run with --pure.", "A nudge behind a call that failed reaches the model with the next result."],
    event: &["hook"],
    read,
    answer,
    nothing: None,
};

fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = || {
        let tool = body.text("tool")?;
        // What the model says a command is for is new at every call, and no part of the command.
        let plain = body.object("args").filter(|_| tool == "bash").and_then(|args| args.without(&["description"]));
        let args = plain.map(Value::Made).or_else(|| body.raw("args").map(Value::Given));
        Some(Call { tool, id: body.text("callID"), args })
    };
    let what = match hook {
        "tool.execute.before" => What::Before(call()?),
        "tool.execute.after" => What::After(call()?, after(body)),
        "tool.error" => What::After(call()?, Outcome::error(body.text("error")?)),
        "chat.message" => What::Prompt(body.text("text")?),
        "session.created" => What::Start,
        _ => return None,
    };
    let mut message = HookMessage::new(body.text("sessionID")?, what);
    message.key = body.text("messageID").or_else(|| body.text("sessionID").filter(|_| matches!(message.what, What::Start)));
    Some(message)
}

fn after<'a>(body: &Object<'a>) -> Outcome<'a> {
    let exit = body.object("metadata").and_then(|metadata| metadata.integer("exit"));
    let said = body.text("output").unwrap_or_default();
    match exit {
        Some(code) if code != 0 => Outcome { exit_code: Some(code), ..Outcome::error(said) },
        _ => Outcome::ok(Some(Value::Text(said))),
    }
}

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    if say.deny {
        return Some(json!({ "deny": say.text }));
    }
    (!heard.is_before).then(|| json!({ "append": say.text }))
}

const INSTALL: Install = Install { variable: Some("XDG_CONFIG_HOME"), ..Install::new("opencode", targets) };

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".opencode/plugin/loopwarden.js", ".config", "opencode/plugin/loopwarden.js");
    let program = serde_json::Value::from(root.program()?.to_string_lossy());
    let text = include_str!("plugin.js").replace("\"@PROGRAM@\"", &program.to_string());
    Ok(vec![Target::Own(path, text.into_bytes(), Mode::Plain)])
}
