//! What a guard counts.

/// Numbers since the start of the process, but for `asking`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers that let a call run, without a text.
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
    /// Those of them after which the same loop went on: another text about it followed, or a refusal.
    pub nudges_unheeded: u64,
    /// Nudges that were handed out twice, and that no event confirmed.
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
