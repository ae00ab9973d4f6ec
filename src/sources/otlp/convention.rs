//! Who reports calls by OpenTelemetry, and how.

use loopwarden_core::event::Rejected;

use crate::otlp::meaning::Meaning;
use crate::otlp::view::{LogView, SpanView};

/// What a convention makes of a span or log record.
pub(super) type Reader<V> = fn(V) -> Result<Meaning, Rejected>;

/// One way to report calls.
#[derive(Debug)]
pub(crate) struct Convention {
    pub(crate) name: &'static str,
    /// What to switch on where arguments or results are missing. Empty: nothing can be.
    pub(crate) hint: &'static str,
    pub(crate) span: for<'a> fn(SpanView<'a>) -> Result<Meaning, Rejected>,
    pub(crate) log: for<'a> fn(LogView<'a>) -> Result<Meaning, Rejected>,
}

/// The column of a convention that reports nothing in spans.
#[expect(clippy::unnecessary_wraps, reason = "a column of the table")]
pub(crate) fn no_span(_: SpanView<'_>) -> Result<Meaning, Rejected> {
    Ok(Meaning::Other)
}

/// The column of a convention that reports nothing in logs.
#[expect(clippy::unnecessary_wraps, reason = "a column of the table")]
pub(crate) fn no_log(_: LogView<'_>) -> Result<Meaning, Rejected> {
    Ok(Meaning::Other)
}
