//! What detectors read of a step.

/// What is computed of each step. A detector states in its own file what it reads; the rest is not computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    pub fingerprint: bool,
    pub outcome: bool,
    pub state: bool,
    pub tokens: bool,
    pub error: bool,
    pub test: bool,
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
