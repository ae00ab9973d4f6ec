//! OpenInference (Arize): spans whose kind is `TOOL`.

use loopwarden_core::event::Rejected;

use crate::draft::Call;
use crate::otlp::convention::{AGENT, Said, ended};
use crate::otlp::view::SpanView;

pub(super) fn span(view: SpanView<'_>) -> Result<Said, Rejected> {
    let attributes = view.attributes;
    if !attributes.is("openinference.span.kind", "TOOL") {
        return Ok(Said::Other);
    }
    let tool = match attributes.owned(&["tool.name", "tool_call.function.name"])? {
        Some(tool) => tool,
        None => view.name()?.to_owned(),
    };
    let mut call = Call {
        tool,
        call_id: attributes.owned(&["tool.id", "tool_call.id"])?,
        // `tool.parameters` is the schema.
        args: attributes.value(&["tool_call.function.arguments", "input.value"])?,
        result: attributes.value(&["output.value"])?,
        agent_id: attributes.owned(&AGENT)?,
        ..Call::default()
    };
    ended(view, false, &mut call)?;
    Ok(Said::Call(Box::new(call)))
}
