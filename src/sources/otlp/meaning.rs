//! What a record says, in the words that conventions share.

use loopwarden_core::event::Rejected;
use serde_json::Value;

use crate::{otlp::call::Call, otlp::view::SpanView};

/// What a span or log record says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meaning {
    /// It is of another convention.
    Other,
    /// It is of this one, and no event.
    Nothing,
    /// A call that the same program's logs report better.
    LeftToLogs,
    /// A call with its answer.
    Call(Box<Call>),
    /// The same, of a span that may lie inside of another one of the same call.
    Inner(Box<Call>),
    /// What a person wrote, where that is reported.
    Prompt(Option<Value>),
    End,
}

/// Writes into a call how its span ended. `is_failed`: the convention says so in words of its own.
pub(crate) fn ended(view: SpanView<'_>, is_failed: bool, call: &mut Call) -> Result<(), Rejected> {
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
pub(crate) const AGENT: [&str; 4] =
    ["gen_ai.agent.name", "agent.name", "gen_ai.agent.id", "traceloop.association.properties.agent"];
