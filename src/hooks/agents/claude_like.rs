//! Any agent that took over Claude Code's events, in whatever spelling.

use serde_json::Value as Json;

use crate::agents::shape;
use crate::hook_event::HookEvent;
use crate::hook_message::{Call, HookMessage, Outcome, Value, What, message, time};
use crate::object::Object;
use crate::say::Say;

const SESSION: [&str; 6] = ["session_id", "sessionId", "conversation_id", "conversationId", "taskId", "trajectory_id"];
const CALL: [&str; 6] = ["tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "call_id", "callID"];
const RESULT: [&str; 5] = ["tool_response", "toolResponse", "tool_result", "toolResult", "tool_output"];

/// `PreToolUse`, `preToolUse`, `pre_tool_use` are one.
pub(crate) fn told<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
    let plain: String = hook.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    let call = || {
        let args = body.raw_of(&["tool_input", "toolInput", "tool_args", "toolArgs"]).map(Value::Given);
        Some(Call { tool: body.text_of(&["tool_name", "toolName"])?, id: body.text_of(&CALL), args })
    };
    let what = match plain.as_str() {
        "pretooluse" | "beforetool" => What::Before(call()?),
        "posttooluse" | "aftertool" => What::After(call()?, Outcome::ok(body.raw_of(&RESULT).map(Value::Given))),
        "posttoolusefailure" => {
            let error = body.raw_of(&["error", "error_message", "errorMessage"]).and_then(message);
            What::After(call()?, Outcome::error(error.unwrap_or_default()))
        }
        "userpromptsubmit" | "userpromptsubmitted" | "beforesubmitprompt" | "beforeagent" => {
            What::Prompt(body.text_of(&["prompt", "message", "text"])?)
        }
        "sessionstart" => shape::start(body)?,
        "sessionend" => What::End,
        _ => return None,
    };
    let mut told = HookMessage::new(body.text_of(&SESSION)?, what);
    told.agent_id = body.text_of(&["agent_id", "agentId"]);
    told.agent_type = body.text_of(&["agent_type", "agentType"]);
    told.model = body.text("model");
    told.time = time(body.raw("timestamp"));
    Some(told)
}

pub(crate) fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    (say.deny || !heard.is_before).then(|| shape::nested(&heard.hook, say))
}
