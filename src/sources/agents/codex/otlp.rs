//! Codex: log events. Here the exit code of a shell is reported; what stands around its output is taken off.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_span};
use crate::{agents::codex::shell_output, otlp::call::Call, otlp::meaning::Meaning, otlp::view::LogView};

pub(super) const CONVENTION: Convention = Convention { name: "Codex", hint: "", span: no_span, log };

/// The main agent's own path.
const MAIN: &str = "/root";

fn log(view: LogView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    match view.event("codex.", "") {
        None => Ok(Meaning::Other),
        Some("tool_result") => {
            let name = attributes.owned(&["tool_name"])?.unwrap_or_default();
            let server = attributes.text("mcp_server")?;
            let namespace = attributes.text("tool_namespace")?.filter(|namespace| namespace != "functions");
            let tool = match (server, namespace) {
                (Some(server), _) if !name.starts_with("mcp__") => format!("mcp__{server}__{name}"),
                (None, Some(namespace)) if !name.starts_with(&*namespace) => format!("{namespace}__{name}"),
                _ => name,
            };
            let (said, exit_code) = shell_output::unwrapped(attributes.owned(&["output"])?.unwrap_or_default());
            let outcome = shell_output::outcome(&said, exit_code, attributes.flag("success"));
            let is_error = matches!(outcome, "error" | "timeout");
            Ok(Meaning::Call(Box::new(Call {
                tool,
                call_id: attributes.owned(&["call_id"])?,
                args: attributes.value(&["arguments"])?,
                error_message: is_error.then(|| said.clone()),
                result: attributes.has("output").then(|| said.into()),
                is_cut: attributes.flag("output_truncated") == Some(true),
                outcome: Some(outcome),
                exit_code: exit_code.filter(|code| *code != 0),
                agent_id: attributes.owned(&["agent_name"])?.filter(|name| name != MAIN),
                ..Call::default()
            })))
        }
        Some("user_prompt") => Ok(Meaning::Prompt(attributes.value(&["prompt"])?.filter(|prompt| prompt != "[REDACTED]"))),
        Some(_) => Ok(Meaning::Nothing),
    }
}
