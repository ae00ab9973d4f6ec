//! How files are replayed.

use loopwarden_core::limits;
use loopwarden_log::InputNames;

/// Partitions of both stages in a replay, whatever the lanes: ids must not depend on them.
pub const REPLAY_PARTITIONS: u32 = 24;

#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Application: the first part of a lane's owner name.
    pub app: String,
    pub lanes: u32,
    /// Topic names that records carry where a line names none.
    pub names: InputNames,
    /// Largest value that is decoded. Bytes. Of a longer line only so much is kept that it is refused as too large.
    pub value_bytes_max: usize,
    /// Records that one poll hands over at most.
    pub poll_records_max: usize,
    /// Read no further than the first line that is no event, or the first piece of a log that is none.
    pub is_strict: bool,
    /// Partitions of both stages. What has no place of its own is placed among [`REPLAY_PARTITIONS`], whatever they are.
    pub partitions: u32,
    /// Whether the store of a lane holds all state after each commit, and not only what has left memory.
    pub keeps_state: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            app: "loopwarden".to_owned(),
            lanes: 1,
            names: InputNames::default(),
            value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            poll_records_max: 1_000,
            is_strict: false,
            partitions: REPLAY_PARTITIONS,
            keeps_state: false,
        }
    }
}
