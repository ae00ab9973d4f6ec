//! What a lane is told once. Valid values only; `loopwarden_settings` checks them.

use loopwarden_log::Partitions;
pub use loopwarden_settings::{DeadLetterContent, OnTrouble, ProcessMode};

/// Time as a lane sees it: it bounds waits and measures; no output depends on it (rule C14).
pub trait Clock {
    /// Monotonic microseconds from any origin.
    fn mono_us(&self) -> u64;
    /// The same in milliseconds.
    fn mono_ms(&self) -> u64 {
        self.mono_us() / 1_000
    }
    /// Wall clock, Unix milliseconds: for `at_end_ms` of a Position and for delays.
    fn wall_ms(&self) -> i64;
}

/// When a commit is due (page `commit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitTrigger {
    /// By the clock: at once when a command waits and the pause is over, else after `max_ms`.
    Timed {
        /// Longest time a record waits for its commit. Milliseconds.
        max_ms: u64,
        /// Shortest pause between two commits. Milliseconds.
        min_ms: u64,
    },
    /// After so many records of the session stage, or 4 MiB of them, whatever the clock says: the same input is cut the same way (replay,
    /// demo).
    EveryRecords(u64),
}

impl Default for CommitTrigger {
    fn default() -> Self {
        Self::Timed { max_ms: 100, min_ms: 2 }
    }
}

#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// What the commands of this process are.
    pub mode: ProcessMode,
    /// What dead letters carry.
    pub dead_letters: DeadLetterContent,
    /// How far the watermark stays behind the greatest event time. Milliseconds.
    pub lateness_ms: i64,
    /// When a commit is due.
    pub trigger: CommitTrigger,
    /// Decoded sessions kept in memory. Bytes, for this lane.
    pub cache_bytes_max: usize,
    /// Uncommitted work kept in memory. Bytes.
    pub overlay_bytes_max: usize,
    /// Uncommitted work kept in memory. Records.
    pub overlay_records_max: u64,
    /// What bad records of many senders do: they are counted, or stop their task.
    pub on_bad_records: OnTrouble,
    /// What lost input does.
    pub on_input_loss: OnTrouble,
    /// `delete.retention.ms` of the changelogs: state that was away for longer is not trusted.
    pub delete_retention_ms: i64,
    pub transaction_timeout_ms: u64,
    /// Whether sums are sent to the swarm stage.
    pub swarm: bool,
    /// Partition counts, where records have a partitioner to be checked against.
    pub partitions: Option<Partitions>,
    /// Whether session tasks send source watermarks, and the time of the swarm stage waits for the slowest. Off where sums come in
    /// the order of the input anyway (replay). Needs `partitions`.
    pub aligns_sources: bool,
    /// Calls that a task of the swarm stage keeps for the sake of its slowest source.
    pub lag_calls_max: u64,
    /// Header of the records that only say how late it is; none where the input has no such records.
    pub tick_header: Option<&'static str>,
    /// Longest wait of one poll. Milliseconds.
    pub poll_ms_max: u64,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            mode: ProcessMode::default(),
            dead_letters: DeadLetterContent::default(),
            lateness_ms: 60_000,
            trigger: CommitTrigger::default(),
            cache_bytes_max: 256 * 1024 * 1024,
            overlay_bytes_max: loopwarden_core::limits::OVERLAY_BYTES_MAX,
            overlay_records_max: loopwarden_core::limits::OVERLAY_RECORDS_MAX,
            on_bad_records: OnTrouble::default(),
            on_input_loss: OnTrouble::default(),
            delete_retention_ms: 3 * 24 * 3_600_000,
            transaction_timeout_ms: 10_000,
            swarm: false,
            partitions: None,
            aligns_sources: false,
            lag_calls_max: loopwarden_core::limits::SWARM_LAG_CALLS_MAX,
            tick_header: None,
            poll_ms_max: 50,
        }
    }
}

impl LaneSettings {
    /// Partitions of events whose slowest the time of the swarm stage waits for; `None` where it waits for nobody.
    pub(crate) fn sources(&self) -> Option<u32> {
        self.partitions.filter(|_| self.aligns_sources && self.swarm).map(|partitions| partitions.session)
    }
}
