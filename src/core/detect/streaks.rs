//! The counters of the detectors: what cannot be read off the ring, because runs may be longer than it. All of one session.

use crate::detect::steps::tally::{Run, Tally};
use crate::detect::{
    budget::Spent, detector::Detector, own_words::OwnTexts, reference::exploration::Explored,
    reference::outcome_repeat::OutcomeRun, reference::progress_matrix::Matrix, text_only::Texts, weights::score::Score,
};

/// Counters of every detector that has one. A reset makes them the default again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Streaks {
    /// `exact_repeat`: the run of one call at the tail.
    pub exact: Run,
    /// `near_repeat`: the run of one fingerprint at the tail.
    pub near: Run,
    /// Tier that the run of this fingerprint has reached: within a run it never falls.
    pub near_tier: u8,
    /// `outcome_repeat`: equal answers to equal calls.
    pub outcome: OutcomeRun,
    /// `stagnation`, `stuck`: the rows of the progress matrix.
    pub matrix: Matrix,
    /// `test_fix`: failing runs in a row.
    pub tests: Tally,
    /// `shell_failures`: failures in a row.
    pub shell: Tally,
    /// `text_only`: text turns in a row.
    pub texts: Texts,
    /// `exploration`: reading before the first edit.
    pub exploration: Explored,
    /// `own_words`: the agent's last texts.
    pub own_texts: OwnTexts,
    /// `budget`: what the session has used.
    pub spent: Spent,
    /// The sum of the evidence.
    pub score: Score,
}

impl Streaks {
    /// What a person's message leaves: what was spent stays spent.
    pub fn begin_anew(&mut self) {
        *self = Self { spent: std::mem::take(&mut self.spent), ..Self::default() };
    }

    /// What a detector has counted so far, below its threshold too; `None` for one that counts in the ring.
    #[must_use]
    pub const fn count(&self, detector: Detector) -> Option<u32> {
        match detector {
            Detector::ShellFailures => Some(self.shell.count),
            Detector::TestFix => Some(self.tests.count),
            Detector::TextOnly => Some(self.texts.turns),
            _ => None,
        }
    }
}
