//! The form that Claude Code began and others took over: names of fields, and the nested answer.

use serde_json::{Map, Value as Json, json};

use crate::hook::{Call, HookMessage, Object, Say, Value, What, time};

/// Session, agent, model and time, with what happened.
pub(crate) fn read<'a>(body: &Object<'a>, what: What<'a>) -> Option<HookMessage<'a>> {
    let mut message = HookMessage::new(body.text("session_id")?, what);
    message.agent_id = body.text("agent_id");
    message.agent_type = body.text("agent_type");
    message.model = body.text("model");
    message.time = time(body.raw("timestamp"));
    Some(message)
}

/// The call, by `tool_name`, `tool_input` and the id under `id_name`.
pub(crate) fn call<'a>(body: &Object<'a>, id_name: &str) -> Option<Call<'a>> {
    Some(Call { tool: body.text("tool_name")?, id: body.text(id_name), args: body.raw("tool_input").map(Value::Given) })
}

/// A session begins; after a compaction it goes on.
pub(crate) fn start<'a>(body: &Object<'a>) -> Option<What<'a>> {
    (body.text("source").as_deref() != Some("compact")).then_some(What::Start)
}

/// The agent says that it is done.
pub(crate) fn done<'a>(body: &Object<'a>) -> Option<What<'a>> {
    body.text("last_assistant_message").map(What::Done)
}

/// The nested answer: a refusal, or context.
pub(crate) fn nested(hook: &str, say: &Say) -> Json {
    let said = if say.deny {
        json!({ "hookEventName": hook, "permissionDecision": "deny", "permissionDecisionReason": say.text })
    } else {
        json!({ "hookEventName": hook, "additionalContext": say.text })
    };
    json!({ "hookSpecificOutput": said })
}

/// An answer that also ends the turn.
pub(crate) fn with_stop(answer: Json, say: &Say) -> Json {
    let mut members = match answer {
        Json::Object(members) => members,
        _ => Map::new(),
    };
    if say.stop {
        members.insert("continue".to_owned(), false.into());
        members.insert("stopReason".to_owned(), say.text.as_str().into());
    }
    Json::Object(members)
}
