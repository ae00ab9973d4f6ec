//! What a guard is told, and what it tells, besides checks and answers.

use loopwarden_core::event::EventTime;
use loopwarden_core::limits::RECORD_BYTES_MAX_DEFAULT;

use crate::decide::WithoutChannel;
use crate::wire::answer::Source;

/// Verdicts of so long ago are stale. Milliseconds.
pub const STALE_AFTER_MS: i64 = 10_000;
/// How a guard behaves.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Largest event. Bytes.
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

/// How much is known at the moment of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Knowledge {
    /// When their source was heard last; none: never, or not in time.
    pub as_of: Option<EventTime>,
    /// How far its judging was behind the events then. Milliseconds.
    pub late_ms: i64,
    /// Where they come from.
    pub source: Source,
}

/// An event to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub session_id: String,
    /// JSON of the event.
    pub event: String,
}

/// What was counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers that let a call run and say nothing.
    pub allowed: u64,
    /// Answers with a text for the model that refuse nothing.
    pub spoken: u64,
    /// Answers that refuse a call.
    pub denied: u64,
    /// Answers given without fresh verdicts.
    pub stale: u64,
    /// Calls refused under a block.
    pub refused: u64,
    /// Calls made in spite of a block: by a caller that cannot refuse, or that did not.
    pub in_spite: u64,
    /// Nudges handed out, refusals of one call among them.
    pub nudges: u64,
    /// Nudges that the next event of the agent confirmed.
    pub nudges_delivered: u64,
    /// Those of them after which the same loop went on: the agent was told again, or refused.
    pub nudges_unheeded: u64,
    /// Nudges that nobody confirmed.
    pub nudges_dropped: u64,
    /// Failures that an agent reported of calls that were refused.
    pub echoes: u64,
    /// Rows and commands that were not understood.
    pub not_understood: u64,
    /// Subjects that were forgotten because there were too many.
    pub evicted: u64,
    /// Answers for which what had been forgotten was looked up.
    pub looked_up: u64,
    /// Agents that asked within the last five minutes; of a crowd, as many as are remembered.
    pub asking: u64,
}
