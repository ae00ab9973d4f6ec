//! What is counted of a foreign topic. Only what is committed counts.

use std::collections::BTreeSet;

use loopwarden_sources::Senders;

/// Counters of a foreign topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntakeStats {
    /// Records read of the topic.
    pub records: u64,
    /// Events written.
    pub events: u64,
    /// Parts of records that are no calls, prompts or sessions, or that the filter of a mapping leaves out.
    pub ignored: u64,
    /// Parts of records, or whole ones, that should have been events.
    pub refused: u64,
    /// Records sent to the dead letters.
    pub dead_letters: u64,
    /// Tool calls among the events, as far as the form tells.
    pub calls: u64,
    /// Calls without arguments: only names can be compared.
    pub without_args: u64,
    /// Calls without a result.
    pub without_results: u64,
    /// Records that were deleted before they were read.
    pub input_lost: u64,
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that ended otherwise, or of which nobody knows the end.
    pub failed: u64,
}

impl IntakeStats {
    /// Adds another's numbers.
    pub const fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.events += other.events;
        self.ignored += other.ignored;
        self.refused += other.refused;
        self.dead_letters += other.dead_letters;
        self.calls += other.calls;
        self.without_args += other.without_args;
        self.without_results += other.without_results;
        self.input_lost += other.input_lost;
        self.committed += other.committed;
        self.failed += other.failed;
    }
}

/// What the records of a batch came to, besides their outputs. It becomes true with the commit.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) stats: IntakeStats,
    /// The same by sender.
    pub(crate) senders: Senders,
    /// Sessions with who reports ends of their calls.
    pub(crate) sources: BTreeSet<(String, &'static str)>,
}

/// What a lane shows of its foreign topic.
#[derive(Debug, Clone, Default)]
pub struct IntakeReport {
    pub topic: String,
    /// The word of its form.
    pub form: &'static str,
    pub stats: IntakeStats,
    /// What came of each sender.
    pub senders: Senders,
    /// Partitions that have stopped themselves, with the cause.
    pub stopped: Vec<String>,
    /// Records it is behind, where known.
    pub lag_records: Option<u64>,
}
