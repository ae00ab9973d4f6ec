//! What an intake is told once.

use loopwarden_ingest::Grant;
use loopwarden_lane::{DeadLetterContent, OnInputLoss};

/// Valid values only.
#[derive(Debug, Clone)]
pub struct IntakeSettings {
    /// Name of the application, for dead letters.
    pub app: String,
    /// The foreign topic.
    pub topic: String,
    /// What its senders may say.
    pub grant: Grant,
    /// The word of its form.
    pub form: &'static str,
    /// What dead letters carry.
    pub dead_letters: DeadLetterContent,
    /// What lost input does.
    pub on_input_loss: OnInputLoss,
    /// Longest time a record waits for its commit. Milliseconds.
    pub commit_ms_max: u64,
    /// Uncommitted outputs that force a commit. Bytes.
    pub bytes_max: usize,
    /// Uncommitted records that do.
    pub records_max: u64,
    /// Largest event. Bytes.
    pub event_bytes_max: usize,
    /// Longest wait of one poll. Milliseconds.
    pub poll_ms_max: u64,
}
