//! The table of conventions: who tells of calls, and how.

use loopwarden_core::event::Rejected;
use serde_json::Value;

use crate::draft::Call;
use crate::otlp::view::{LogView, SpanView};
use crate::otlp::{claude_code, codex, gemini, langfuse, mcp, openinference, openllmetry, qwen, semconv, vercel};

/// What a span or log record says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// It is of another convention.
    Other,
    /// It is of this one, and no event.
    Nothing,
    /// A call that the same program's logs tell better.
    LeftToLogs,
    /// A call with its answer.
    Call(Box<Call>),
    /// The same, of a span that may lie inside of another one of the same call.
    Inner(Box<Call>),
    /// What a person wrote, where that is told.
    Prompt(Option<Value>),
    /// The session is over.
    End,
}

/// One way to tell of calls.
pub(super) struct Convention {
    /// Its name, for people.
    pub(super) name: &'static str,
    /// What to switch on where arguments or results are missing. Empty: nothing can be.
    pub(super) hint: &'static str,
    pub(super) span: fn(SpanView<'_>) -> Result<Said, Rejected>,
    pub(super) log: fn(LogView<'_>) -> Result<Said, Rejected>,
}

/// All of them. The first that knows a record reads it: programs before libraries, since they also follow a library's convention in part.
pub(super) const CONVENTIONS: [Convention; 10] = [
    Convention {
        name: "Claude Code",
        hint: "Claude Code tells arguments with OTEL_LOG_TOOL_DETAILS=1, and no results; its hooks tell both",
        span: claude_code::span,
        log: claude_code::log,
    },
    Convention { name: "Codex", hint: "", span: no_span, log: codex::log },
    Convention {
        name: "Gemini CLI",
        hint: "Gemini CLI tells no results in its logs; its hooks do",
        span: gemini::span,
        log: gemini::log,
    },
    Convention {
        name: "Qwen Code",
        hint: "Qwen Code tells no results in its logs; its hooks do",
        span: qwen::span,
        log: qwen::log,
    },
    Convention {
        name: "Vercel AI SDK",
        hint: "the AI SDK tells both with recordInputs and recordOutputs",
        span: vercel::span,
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
    Convention {
        name: "OpenLLMetry",
        hint: "OpenLLMetry tells both unless TRACELOOP_TRACE_CONTENT=false",
        span: openllmetry::span,
        log: no_log,
    },
    Convention { name: "Langfuse", hint: "", span: langfuse::span, log: no_log },
];

const SEMCONV_HINT: &str =
    "arguments and results are opt-in: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or your SDK's switch";

fn no_span(_: SpanView<'_>) -> Result<Said, Rejected> {
    Ok(Said::Other)
}

fn no_log(_: LogView<'_>) -> Result<Said, Rejected> {
    Ok(Said::Other)
}

/// Writes into a call how its span ended. `is_failed`: the convention says so in words of its own.
pub(super) fn ended(view: SpanView<'_>, is_failed: bool, call: &mut Call) -> Result<(), Rejected> {
    if is_failed || view.is_error() || view.attributes.has("error.type") {
        let (kind, message) = view.error()?;
        call.outcome = Some("error");
        call.error_type = kind;
        if call.error_message.is_none() {
            call.error_message = message;
        }
    }
    Ok(())
}

/// The agent inside the session, where a span names one.
pub(super) const AGENT: [&str; 4] =
    ["gen_ai.agent.name", "agent.name", "gen_ai.agent.id", "traceloop.association.properties.agent"];
