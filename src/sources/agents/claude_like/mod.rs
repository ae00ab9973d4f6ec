//! Any agent that took over Claude Code's events, in whatever spelling.

use serde_json::Value as Json;

use crate::{
    Agent,
    hook::{AFTER, Call, Hook, HookEvent, HookMessage, Object, Outcome, Say, Value, What, message, shape, time},
};

pub(super) const AGENT: Agent = Agent {
    name: "claude-like",
    title: "an agent with the hooks of Claude Code",
    hook: Some(HOOK),
    install: None,
    log: None,
    telemetry: None,
};

const HOOK: Hook = Hook {
    can: AFTER,
    lacks: &["Depends on the program: only what Claude Code's hooks have too is used."],
    event: &["hook_event_name", "hookEventName", "event_type", "event", "agent_action_name", "hookName"],
    read,
    answer,
    nothing: None,
};

const SESSION: [&str; 6] = ["session_id", "sessionId", "conversation_id", "conversationId", "taskId", "trajectory_id"];
const CALL: [&str; 6] = ["tool_use_id", "toolUseId", "tool_call_id", "toolCallId", "call_id", "callID"];
const RESULT: [&str; 5] = ["tool_response", "toolResponse", "tool_result", "toolResult", "tool_output"];

/// `PreToolUse`, `preToolUse`, `pre_tool_use` are one.
fn read<'a>(hook: &str, body: &Object<'a>) -> Option<HookMessage<'a>> {
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
    let mut message = HookMessage::new(body.text_of(&SESSION)?, what);
    message.agent_id = body.text_of(&["agent_id", "agentId"]);
    message.agent_type = body.text_of(&["agent_type", "agentType"]);
    message.model = body.text("model");
    message.time = time(body.raw("timestamp"));
    Some(message)
}

fn answer(heard: &HookEvent, say: &Say) -> Option<Json> {
    (say.deny || !heard.is_before).then(|| shape::nested(&heard.hook, say))
}
