//! What detectors read of a step.

/// What is computed of each step. A detector states in its own file what it reads; the rest is not computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Fingerprints.
    pub fingerprint: bool,
    /// Outcome identities.
    pub outcome: bool,
    /// State hashes.
    pub state: bool,
    /// Token signatures.
    pub tokens: bool,
    /// Error keys.
    pub error: bool,
    /// Test signals.
    pub test: bool,
    /// Read targets.
    pub read_target: bool,
    /// Counts for the swarm stage.
    pub swarm: bool,
    /// Sketches, and what they say of a step.
    pub evidence: bool,
}

impl Needs {
    /// What one of both needs.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            fingerprint: self.fingerprint || other.fingerprint,
            outcome: self.outcome || other.outcome,
            state: self.state || other.state,
            tokens: self.tokens || other.tokens,
            error: self.error || other.error,
            test: self.test || other.test,
            read_target: self.read_target || other.read_target,
            swarm: self.swarm || other.swarm,
            evidence: self.evidence || other.evidence,
        }
    }
}
