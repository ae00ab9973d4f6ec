//! Langfuse's SDK: observations of type `tool`.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_log};
use crate::otlp::meaning::{AGENT, Meaning, ended};
use crate::{otlp::call::Call, otlp::view::SpanView};

pub(super) const CONVENTION: Convention = Convention { name: "Langfuse", hint: "", span, log: no_log };

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
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
