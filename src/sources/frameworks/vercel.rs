//! Vercel AI SDK up to version 6: spans `ai.toolCall`. Version 7 follows the GenAI conventions.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_log};
use crate::otlp::meaning::{Meaning, ended};
use crate::{otlp::call::Call, otlp::view::SpanView};

pub(super) const CONVENTION: Convention =
    Convention { name: "Vercel AI SDK", hint: "the AI SDK reports both with recordInputs and recordOutputs", span, log: no_log };

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
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
