//! Gemini CLI: log events. Its spans of calls have no arguments unless prompts are logged.

use loopwarden_core::event::Rejected;
use serde_json::Value;

use crate::otlp::view::{Attributes, LogView, SpanView};
use crate::{otlp::call::Call, otlp::convention::Convention, otlp::meaning::Meaning};

pub(super) const CONVENTION: Convention =
    Convention { name: "Gemini CLI", hint: "Gemini CLI reports no results in its logs; its hooks do", span, log };

fn log(view: LogView<'_>) -> Result<Meaning, Rejected> {
    match view.event("gemini_cli.", "") {
        None => Ok(Meaning::Other),
        Some("tool_call") => call(view.attributes).map(|call| Meaning::Call(Box::new(call))),
        Some("user_prompt") => Ok(Meaning::Prompt(view.attributes.value(&["prompt"])?)),
        Some(_) => Ok(Meaning::Nothing),
    }
}

/// A call as this program and Qwen Code report it.
pub(crate) fn call(attributes: Attributes<'_>) -> Result<Call, Rejected> {
    let about = match attributes.value(&["metadata"])? {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        about => about.unwrap_or_default(),
    };
    let exit_code = about.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0);
    let is_error = attributes.flag("success") == Some(false) || exit_code.is_some();
    let is_denied = attributes.is("decision", "reject");
    let is_cancelled = attributes.is("status", "cancelled");
    Ok(Call {
        tool: attributes.owned(&["function_name"])?.unwrap_or_default(),
        call_id: attributes.owned(&["call_id"])?,
        args: attributes.value(&["function_args"])?,
        result_bytes: attributes.number("content_length"),
        is_cut: true,
        outcome: match (is_denied, is_cancelled, is_error) {
            (true, ..) => Some("denied"),
            (_, true, _) => Some("cancelled"),
            (_, _, true) => Some("error"),
            _ => None,
        },
        error_type: attributes.owned(&["error_type"])?.filter(|_| is_error),
        error_message: attributes.owned(&["error"])?.filter(|_| is_error),
        exit_code,
        ..Call::default()
    })
}

#[expect(clippy::unnecessary_wraps, reason = "a column of the table of conventions")]
fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    if !view.scope_is("gemini-cli") {
        return Ok(Meaning::Other);
    }
    let is_call = view.attributes.is("gen_ai.operation.name", "tool_call") || view.has_name("tool_call");
    Ok(if is_call { Meaning::LeftToLogs } else { Meaning::Nothing })
}
