//! OpenTelemetry's GenAI semantic conventions: `execute_tool` spans, with the older names of what is opt-in. And the spans of calls to MCP.
//!
//! - arguments and results as attributes: the newest form, also PydanticAI, Agent Framework, AI SDK 7
//! - as span events `gen_ai.tool.message` and `gen_ai.choice`: Strands without its newest form
//! - under names of their own: Google ADK, PydanticAI's second version

use loopwarden_core::event::Rejected;
use serde_json::Value;

use crate::otlp::call::Call;
use crate::otlp::convention::{Convention, no_log};
use crate::otlp::meaning::{AGENT, Meaning, ended};
use crate::otlp::view::{Attributes, SpanView};

/// What to switch on where arguments or results are missing.
const HINT: &str =
    "arguments and results are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or your SDK's switch";

pub(super) const GENAI: Convention = Convention { name: "GenAI semantic conventions", hint: HINT, span, log: no_log };

const ARGS: [&str; 2] = ["gen_ai.tool.call.arguments", "tool_arguments"];
const RESULT: [&str; 2] = ["gen_ai.tool.call.result", "tool_response"];

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    let attributes = view.attributes;
    let is_meant = if attributes.has("gen_ai.operation.name") {
        attributes.is("gen_ai.operation.name", "execute_tool")
    } else {
        view.span.name.starts_with(b"execute_tool ") || view.has_name("running tool")
    };
    if !is_meant {
        return Ok(Meaning::Other);
    }
    call(view).map(|call| Meaning::Call(Box::new(call)))
}

/// A call by these names.
fn call(view: SpanView<'_>) -> Result<Call, Rejected> {
    let attributes = view.attributes;
    let tool = match attributes.owned(&["gen_ai.tool.name"])? {
        Some(tool) => tool,
        None => view.name()?.strip_prefix("execute_tool ").unwrap_or_default().to_owned(),
    };
    let none = Attributes(&[]);
    let (asked, answered) = (view.event("gen_ai.tool.message").unwrap_or(none), view.event("gen_ai.choice").unwrap_or(none));
    let first = |a: Option<Value>, b: Option<Value>, c: Option<Value>| a.or(b).or(c);
    let mut call = Call {
        tool,
        call_id: attributes.owned(&["gen_ai.tool.call.id", "gen_ai.tool.call_id"])?,
        args: first(attributes.value(&ARGS)?, google(attributes, "gcp.vertex.agent.tool_call_args")?, asked.value(&["content"])?),
        result: first(
            attributes.value(&RESULT)?,
            google(attributes, "gcp.vertex.agent.tool_response")?,
            answered.value(&["message", "content"])?,
        ),
        agent_id: attributes.owned(&AGENT)?,
        ..Call::default()
    };
    ended(view, attributes.is("gen_ai.tool.status", "error"), &mut call)?;
    Ok(call)
}

/// Google ADK writes an empty object where content is switched off.
fn google(attributes: Attributes<'_>, key: &'static str) -> Result<Option<Value>, Rejected> {
    let is_off = attributes.is("gcp.vertex.agent.tool_call_args", "{}") && attributes.is("gcp.vertex.agent.tool_response", "{}");
    if is_off { Ok(None) } else { attributes.value(&[key]) }
}

/// Calls to MCP servers (`tools/call`). Such a span may lie inside of an `execute_tool` span of the same call: one of the two counts.
pub(super) const MCP: Convention = Convention { name: "MCP", hint: HINT, span: mcp, log: no_log };

/// `SpanKind` of the one that serves.
const SERVER: i32 = 2;

fn mcp(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    if !view.attributes.is("mcp.method.name", "tools/call") {
        return Ok(Meaning::Other);
    }
    // The client's span is the parent of a server's.
    if view.span.kind == SERVER && !view.span.parent_span_id.is_empty() {
        return Ok(Meaning::Nothing);
    }
    let mut call = call(view)?;
    if call.tool.is_empty() {
        view.name()?.strip_prefix("tools/call ").unwrap_or_default().clone_into(&mut call.tool);
    }
    Ok(Meaning::Inner(Box::new(call)))
}
