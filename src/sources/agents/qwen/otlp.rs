//! Qwen Code: log events. Its spans, which it sends beside them by default, report neither arguments nor results.

use loopwarden_core::event::Rejected;

use crate::otlp::view::{LogView, SpanView};
use crate::{agents::gemini::otlp as gemini, otlp::convention::Convention, otlp::meaning::Meaning, text::number_after};

pub(super) const CONVENTION: Convention =
    Convention { name: "Qwen Code", hint: "Qwen Code reports no results in its logs; its hooks do", span, log };

/// Labels of a shell's exit code in the text of a failure.
const EXIT_CODE: [&str; 1] = ["Exit Code"];

fn log(view: LogView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    match view.event("qwen-code.", "qwen-code") {
        None => Ok(Meaning::Other),
        Some("tool_call") => {
            let mut call = gemini::call(attributes)?;
            if let Some(said) = &call.error_message {
                // The whole answer of a failed call.
                call.is_cut = false;
                call.exit_code = call.exit_code.or_else(|| number_after(said, &EXIT_CODE).filter(|code| *code != 0));
            }
            call.agent_id = attributes.owned(&["subagent_name"])?;
            Ok(Meaning::Call(Box::new(call)))
        }
        Some("user_prompt") => Ok(Meaning::Prompt(attributes.value(&["prompt"])?)),
        Some("session.end") => Ok(Meaning::End),
        Some(_) => Ok(Meaning::Nothing),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a column of the table of conventions")]
fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    if !view.scope_is("qwen-code") {
        return Ok(Meaning::Other);
    }
    Ok(if view.has_name("qwen-code.tool") { Meaning::LeftToLogs } else { Meaning::Nothing })
}
