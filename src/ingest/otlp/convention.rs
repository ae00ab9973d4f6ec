//! The table of conventions: who reports of calls, and how.

use loopwarden_core::event::Rejected;

use crate::otlp::meaning::Meaning;
use crate::otlp::view::{LogView, SpanView};
use crate::otlp::{claude_code, codex, gemini, langfuse, mcp, openinference, openllmetry, qwen, semconv, vercel};

/// What a convention makes of a span or log record.
pub(super) type Reader<V> = fn(V) -> Result<Meaning, Rejected>;

/// One way to report calls.
pub(super) struct Convention {
    /// Its name, for people.
    pub(super) name: &'static str,
    /// What to switch on where arguments or results are missing. Empty: nothing can be.
    pub(super) hint: &'static str,
    pub(super) span: for<'a> fn(SpanView<'a>) -> Result<Meaning, Rejected>,
    pub(super) log: for<'a> fn(LogView<'a>) -> Result<Meaning, Rejected>,
}

/// All of them. The first that knows a record reads it. The GenAI conventions come late: others have their names too, in part or with other
/// content.
pub(super) const CONVENTIONS: [Convention; 10] = [
    Convention {
        name: "Claude Code",
        hint: "Claude Code reports arguments with OTEL_LOG_TOOL_DETAILS=1, and no results; its hooks report both",
        span: claude_code::span,
        log: claude_code::log,
    },
    Convention { name: "Codex", hint: "", span: no_span, log: codex::log },
    Convention {
        name: "Gemini CLI",
        hint: "Gemini CLI reports no results in its logs; its hooks do",
        span: gemini::span,
        log: gemini::log,
    },
    Convention {
        name: "Qwen Code",
        hint: "Qwen Code reports no results in its logs; its hooks do",
        span: qwen::span,
        log: qwen::log,
    },
    Convention {
        name: "Vercel AI SDK",
        hint: "the AI SDK reports both with recordInputs and recordOutputs",
        span: vercel::span,
        log: no_log,
    },
    Convention {
        name: "OpenLLMetry",
        hint: "OpenLLMetry reports both unless TRACELOOP_TRACE_CONTENT=false",
        span: openllmetry::span,
        log: no_log,
    },
    Convention { name: "MCP", hint: SEMCONV_HINT, span: mcp::span, log: no_log },
    Convention { name: "GenAI semantic conventions", hint: SEMCONV_HINT, span: semconv::span, log: no_log },
    Convention {
        name: "OpenInference",
        hint: "OpenInference hides both with OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",
        span: openinference::span,
        log: no_log,
    },
    Convention { name: "Langfuse", hint: "", span: langfuse::span, log: no_log },
];

const SEMCONV_HINT: &str =
    "arguments and results are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or your SDK's switch";

#[expect(clippy::unnecessary_wraps, reason = "a column of the table")]
fn no_span(_: SpanView<'_>) -> Result<Meaning, Rejected> {
    Ok(Meaning::Other)
}

#[expect(clippy::unnecessary_wraps, reason = "a column of the table")]
fn no_log(_: LogView<'_>) -> Result<Meaning, Rejected> {
    Ok(Meaning::Other)
}
