//! OpenLLMetry (Traceloop): spans whose kind is `tool`. They also have the names of the GenAI conventions, with the same wrapped content.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_log};
use crate::otlp::frameworks::langchain::{given, returned};
use crate::otlp::meaning::{AGENT, Meaning, ended};
use crate::{otlp::call::Call, otlp::view::SpanView};

pub(super) const CONVENTION: Convention =
    Convention { name: "OpenLLMetry", hint: "OpenLLMetry reports both unless TRACELOOP_TRACE_CONTENT=false", span, log: no_log };

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    if !attributes.is("traceloop.span.kind", "tool") {
        return Ok(Meaning::Other);
    }
    let tool = match attributes.owned(&["traceloop.entity.name", "gen_ai.tool.name"])? {
        Some(tool) => tool,
        None => view.name()?.trim_end_matches(".tool").to_owned(),
    };
    let input = attributes.value(&["traceloop.entity.input", "gen_ai.tool.call.arguments"])?.map(given);
    let output = attributes.value(&["traceloop.entity.output", "gen_ai.tool.call.result"])?.map(returned);
    let named = attributes.owned(&["gen_ai.tool.call.id"])?;
    let (args, asked) = input.map_or((None, None), |input| (Some(input.args), input.call_id));
    let is_error = output.as_ref().is_some_and(|output| output.is_error);
    let (result, answered) = output.map_or((None, None), |output| (Some(output.result), output.call_id));
    let call_id = named.or(asked).or(answered);
    let mut call = Call { tool, call_id, args, result, agent_id: attributes.owned(&AGENT)?, ..Call::default() };
    ended(view, is_error, &mut call)?;
    Ok(Meaning::Call(Box::new(call)))
}
