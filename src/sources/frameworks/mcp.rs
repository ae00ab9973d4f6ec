//! Calls to MCP servers (`tools/call`). Such a span may lie inside of an `execute_tool` span of the same call: one of the two counts.

use loopwarden_core::event::Rejected;

use crate::otlp::convention::{Convention, no_log};
use crate::{frameworks::semconv, otlp::meaning::Meaning, otlp::view::SpanView};

pub(super) const CONVENTION: Convention = Convention { name: "MCP", hint: semconv::HINT, span, log: no_log };

/// `SpanKind` of the one that serves.
const SERVER: i32 = 2;

fn span(view: SpanView<'_>) -> Result<Meaning, Rejected> {
    if !view.attributes.is("mcp.method.name", "tools/call") {
        return Ok(Meaning::Other);
    }
    // The client's span is the parent of a server's.
    if view.span.kind == SERVER && !view.span.parent_span_id.is_empty() {
        return Ok(Meaning::Nothing);
    }
    let mut call = semconv::call(view)?;
    if call.tool.is_empty() {
        view.name()?.strip_prefix("tools/call ").unwrap_or_default().clone_into(&mut call.tool);
    }
    Ok(Meaning::Inner(Box::new(call)))
}
