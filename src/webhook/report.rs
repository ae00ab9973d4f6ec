//! What a webhook shows of itself.

use loopwarden_log::clock::Stopwatch;

/// Counters of one webhook since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookStats {
    /// Requests that the receiver took.
    pub accepted: u64,
    /// Requests with an answer after which the same command is sent again.
    pub again: u64,
    /// Requests without an answer: no connection, no answer in time, a certificate that nobody knows.
    pub unanswered: u64,
    /// Commands that the receiver refused.
    pub refused: u64,
    /// Commands that were dropped past their `expires_at`.
    pub expired: u64,
    /// Commands that the settings leave out.
    pub filtered: u64,
    /// Records of the topic that are no commands.
    pub unreadable: u64,
    /// Commands that were deleted before they were read.
    pub lost: u64,
}

/// What a webhook shows of itself.
#[derive(Debug, Clone, Default)]
pub struct WebhookReport {
    pub name: String,
    pub stats: WebhookStats,
    /// Commands are read, and the receiver has not said that it is gone.
    pub is_up: bool,
    /// Since when the command at the head of the line is tried.
    pub waiting: Option<Stopwatch>,
    /// Commands to send, where known.
    pub behind: Option<u64>,
}
