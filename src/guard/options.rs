//! How a guard behaves, and the events that it wants recorded.

use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;

use crate::{decide::WithoutChannel, staleness::STALE_AFTER_MS};

/// Limits and choices of whoever runs the guard.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Largest event of a check; a larger one is refused. Bytes.
    pub event_bytes_max: usize,
    /// Nudges for callers that can only refuse.
    pub without_channel: WithoutChannel,
    /// Verdicts of so long ago are stale. Milliseconds.
    pub stale_after_ms: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            event_bytes_max: RECORD_BYTES_MAX_DEFAULT,
            without_channel: WithoutChannel::default(),
            stale_after_ms: STALE_AFTER_MS,
        }
    }
}

/// An event to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Key of the record: the session of the event.
    pub session_id: String,
    /// JSON of the event, as it is to be written to the log.
    pub event: String,
}
