//! Antigravity CLI: asks before a call and tells nothing after it. Without a decision it asks the person, so it always gets one.
//!
//! Installation: a file of hooks, by the name of who wrote them.

use loopwarden_guard::Capabilities;
use serde_json::{Value as Json, json};

use crate::Agent;
use crate::hook::{Call, Hook, HookEvent, HookMessage, Object, Say, Value, What};
use crate::install::{Edit, Install, InstallRoot, Target, WAIT_S, group, run};

pub(super) const AGENT: Agent =
    Agent { name: "antigravity", title: "Antigravity CLI", hook: Some(HOOK), install: Some(INSTALL), log: None, telemetry: None };

const HOOK: Hook = Hook {
    can: Capabilities::DENY,
    lacks: &["Results are not told.", "A nudge is a refusal, once.", "Without an answer it asks the person."],
    event: &[],
    read,
    answer,
    nothing: Some(nothing),
};

/// It names no event: what holds a call is one.
fn read<'a>(_: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = body.object("toolCall")?;
    let call = Call { tool: call.text("name")?, id: None, args: call.raw("args").map(Value::Given) };
    let mut message = HookMessage::new(body.text("conversationId")?, What::Before(call));
    message.model = body.text("modelName");
    message.key = body.raw("stepIdx").map(|step| step.get().into());
    Some(message)
}

fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    say.deny.then(|| json!({ "decision": "deny", "reason": say.text }))
}

/// No opinion: this does not keep it from asking the person as usual.
fn nothing() -> Json {
    json!({ "decision": "allow" })
}

const INSTALL: Install = Install::new("agy", targets);

fn targets(root: &InstallRoot) -> Result<Vec<Target>, String> {
    let path = root.path(".agents/hooks.json", ".gemini", "config/hooks.json");
    let entries = vec![("PreToolUse", group(true, run(&root.command("")?, WAIT_S)))];
    Ok(vec![Target::Shared(path, Edit { version: None, under: "loopwarden", entries })])
}
