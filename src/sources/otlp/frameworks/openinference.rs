//! OpenInference (Arize): spans whose kind is `TOOL`.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_log};
use crate::otlp::frameworks::langchain::{given, returned};
use crate::otlp::meaning::{AGENT, Meaning, ended};
use crate::{otlp::call::Call, otlp::view::SpanView};

pub(super) const CONVENTION: Convention = Convention {
    name: "OpenInference",
    hint: "OpenInference hides both with OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",
    span,
    log: no_log,
};

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    if !attributes.is("openinference.span.kind", "TOOL") {
        return Ok(Meaning::Other);
    }
    let tool = match attributes.owned(&["tool.name", "tool_call.function.name"])? {
        Some(tool) => tool,
        None => view.name()?.to_owned(),
    };
    let output = attributes.value(&["output.value"])?.map(returned);
    let is_error = output.as_ref().is_some_and(|output| output.is_error);
    let (result, answered) = output.map_or((None, None), |output| (Some(output.result), output.call_id));
    let mut call = Call {
        tool,
        call_id: attributes.owned(&["tool.id", "tool_call.id"])?.or(answered),
        // `tool.parameters` is the schema.
        args: attributes.value(&["tool_call.function.arguments", "input.value"])?.map(|value| given(value).args),
        result,
        agent_id: attributes.owned(&AGENT)?,
        ..Call::default()
    };
    ended(view, is_error, &mut call)?;
    Ok(Meaning::Call(Box::new(call)))
}
