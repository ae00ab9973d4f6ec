//! Claude Code: log events, and the spans of its beta. Both name a call by the model's id, which is unique, so that it counts once.
//!
//! No log reports a result, and all failures of a shell read alike: such an answer proves nothing.

use loopwarden_core::event::Rejected;
use serde_json::{Map, Value};

use crate::otlp::meaning::{Meaning, ended};
use crate::otlp::view::{Attributes, LogView, SpanView};
use crate::{otlp::call::Call, otlp::convention::Convention};

pub(super) const CONVENTION: Convention = Convention {
    name: "Claude Code",
    hint: "Claude Code reports arguments with OTEL_LOG_TOOL_DETAILS=1, and no results; its hooks report both",
    span,
    log,
};

const PREFIX: &str = "claude_code.";
/// Stands where a text is not reported.
const REDACTED: &str = "<REDACTED>";

fn log(view: LogView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    match view.event(PREFIX, "claude-code") {
        None => Ok(Meaning::Other),
        Some("tool_result") => {
            let mut call = call(attributes)?;
            call.result_bytes = attributes.number("tool_result_size_bytes");
            call.is_cut = true;
            if attributes.is("decision_type", "reject") {
                call.outcome = Some("denied");
            } else if attributes.flag("success") == Some(false) {
                call.outcome = Some("error");
                call.error_type = attributes.owned(&["error_type"])?;
                call.error_message = attributes.owned(&["error"])?;
            }
            Ok(Meaning::Call(Box::new(call)))
        }
        Some("tool_decision") if attributes.is("decision", "reject") => {
            Ok(Meaning::Call(Box::new(Call { outcome: Some("denied"), ..call(attributes)? })))
        }
        Some("user_prompt") => {
            let prompt = attributes.value(&["prompt", "prompt_text"])?;
            Ok(Meaning::Prompt(prompt.filter(|prompt| prompt != REDACTED)))
        }
        Some(_) => Ok(Meaning::Nothing),
    }
}

fn call(attributes: Attributes<'_>) -> Result<Call, Rejected> {
    let parameters = object(attributes, "tool_parameters")?;
    let text = |name: &str| parameters.as_ref()?.get(name)?.as_str().map(str::to_owned);
    let mut tool = attributes.owned(&["tool_name"])?.unwrap_or_default();
    if let (true, Some(server), Some(name)) = (tool == "mcp_tool", text("mcp_server_name"), text("mcp_tool_name")) {
        tool = format!("mcp__{server}__{name}");
    }
    let mut args = object(attributes, "tool_input")?;
    // The arguments are cut at 512 characters each, and this copy of one is not.
    if let Some(command) = text("full_command") {
        let args = args.get_or_insert_with(|| {
            let description = text("description").map(|text| ("description".to_owned(), Value::from(text)));
            description.into_iter().collect()
        });
        args.insert("command".to_owned(), command.into());
    }
    let call_id = attributes.owned(&["tool_use_id"])?;
    Ok(Call { tool, event_id: call_id.clone(), call_id, args: args.map(Value::Object), ..Call::default() })
}

/// An object that is reported as a text.
fn object(attributes: Attributes<'_>, key: &'static str) -> Result<Option<Map<String, Value>>, Rejected> {
    Ok(match attributes.value(&[key])? {
        Some(Value::Object(object)) => Some(object),
        Some(Value::String(text)) => serde_json::from_str(&text).ok(),
        _ => None,
    })
}

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    if !view.span.name.starts_with(PREFIX.as_bytes()) {
        return Ok(Meaning::Other);
    }
    if !view.has_name("claude_code.tool") {
        return Ok(Meaning::Nothing);
    }
    let attributes = view.attributes;
    let content = view.event("tool.output").unwrap_or(Attributes(&[]));
    let args = match content.value(&["input", "tool_input"])? {
        None => object(attributes, "tool_input")?.map(Value::Object),
        args => args,
    };
    let Some(args) = args else { return Ok(Meaning::LeftToLogs) };
    let call_id = attributes.owned(&["tool_use_id", "gen_ai.tool.call.id"])?;
    let agent_id = attributes.owned(&["agent_id"])?;
    let mut call = Call {
        is_of_sub_agent: agent_id.is_some(),
        tool: attributes.owned(&["tool_name", "gen_ai.tool.name"])?.unwrap_or_default(),
        event_id: call_id.clone(),
        call_id,
        args: Some(args),
        result: content.value(&["output", "tool_output", "content"])?,
        agent_id,
        ..Call::default()
    };
    ended(view, attributes.flag("success") == Some(false), &mut call)?;
    Ok(Meaning::Call(Box::new(call)))
}
