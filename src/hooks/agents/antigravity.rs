//! Antigravity CLI: asks before a call and tells nothing after it. Without a decision it asks the person, so it always gets one.

use serde_json::{Value as Json, json};

use crate::hook_event::HookEvent;
use crate::hook_message::{Call, HookMessage, Value, What};
use crate::object::Object;
use crate::say::Say;

/// It names no event: what holds a call is one.
pub(crate) fn told<'a>(_: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let call = body.object("toolCall")?;
    let call = Call { tool: call.text("name")?, id: None, args: call.raw("args").map(Value::Given) };
    let mut told = HookMessage::new(body.text("conversationId")?, What::Before(call));
    told.model = body.text("modelName");
    told.key = body.raw("stepIdx").map(|step| step.get().into());
    Some(told)
}

pub(crate) fn answer(_: &HookEvent, say: &Say) -> Option<Json> {
    say.deny.then(|| json!({ "decision": "deny", "reason": say.text }))
}

/// No opinion: this does not keep it from asking the person as usual.
pub(crate) fn nothing() -> Json {
    json!({ "decision": "allow" })
}
