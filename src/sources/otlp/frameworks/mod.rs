//! Conventions of OpenTelemetry that are no single agent's: a row for each. Those whose content is wrapped, or has many names, have a file.

mod langchain;
mod openinference;
mod openllmetry;
mod semconv;

use loopwarden_core::event::Rejected;

use crate::otlp::{
    call::Call,
    convention::{Convention, no_log},
    meaning::{AGENT, Meaning, ended},
    view::SpanView,
};

/// In the order in which they are asked. The GenAI conventions come late: others have their names too, in part or with other content.
pub(crate) static CONVENTIONS: [Convention; 6] =
    [VERCEL, openllmetry::CONVENTION, semconv::MCP, semconv::GENAI, openinference::CONVENTION, LANGFUSE];

/// Vercel AI SDK up to version 6: spans `ai.toolCall`. Version 7 follows the GenAI conventions.
const VERCEL: Convention = Convention {
    name: "Vercel AI SDK",
    hint: "the AI SDK reports both with recordInputs and recordOutputs",
    span: vercel,
    log: no_log,
};

fn vercel(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    let Some(tool) = attributes.owned(&["ai.toolCall.name"])? else { return Ok(Meaning::Other) };
    let mut call = Call {
        tool,
        call_id: attributes.owned(&["ai.toolCall.id"])?,
        args: attributes.value(&["ai.toolCall.args", "ai.toolCall.input"])?,
        result: attributes.value(&["ai.toolCall.result", "ai.toolCall.output"])?,
        ..Call::default()
    };
    ended(view, false, &mut call)?;
    Ok(Meaning::Call(Box::new(call)))
}

/// Langfuse's SDK: observations of type `tool`.
const LANGFUSE: Convention = Convention { name: "Langfuse", hint: "", span: langfuse, log: no_log };

fn langfuse(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    if !attributes.is("langfuse.observation.type", "tool") {
        return Ok(Meaning::Other);
    }
    let mut call = Call {
        tool: view.name()?.to_owned(),
        args: attributes.value(&["langfuse.observation.input"])?,
        result: attributes.value(&["langfuse.observation.output"])?,
        agent_id: attributes.owned(&AGENT)?,
        ..Call::default()
    };
    let is_failed = attributes.is("langfuse.observation.level", "ERROR");
    if is_failed {
        call.error_message = attributes.owned(&["langfuse.observation.status_message"])?;
    }
    ended(view, is_failed, &mut call)?;
    Ok(Meaning::Call(Box::new(call)))
}
