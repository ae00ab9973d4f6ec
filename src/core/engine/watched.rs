//! An agent of a trial, as its session keeps it.

use crate::policy::{Arm, Detector};

/// Whether there is more to be seen of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    Open,
    /// It has left the loop, has ended, or has been silent until its outcome was due.
    Over,
    /// A person has let the loop be: it counts in neither arm.
    LetBe,
}

/// An agent since the first command about it. Only its first loop counts: a later one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedAgent {
    pub detector: Detector,
    pub arm: Arm,
    /// Between the first and the last call of its loop another call brought news. That is seen before the command, alike in each arm.
    pub was_getting_on: bool,
    /// In the loop, after the first command. A call that was refused has cost nothing.
    pub calls: u64,
    /// Of these calls. Millionths of a US dollar.
    pub micro_usd: u64,
    /// Calls in a row without a finding.
    pub calls_outside: u32,
    pub watch: Watch,
}

impl WatchedAgent {
    /// Whether it left the loop and made another call.
    #[must_use]
    pub const fn went_on(&self) -> bool {
        self.calls_outside > 0
    }
}
