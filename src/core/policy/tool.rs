//! The policy of a tool: class, identity, volatile fields, threshold factor. One record serves all detectors.

use crate::identity::{CallRules, ToolOutcomeRules};

/// What a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolClass {
    /// Nothing special.
    #[default]
    Normal,
    /// Asked again until the answer changes: thresholds of counts are multiplied.
    Poll,
    /// Reads: feeds `exploration`.
    Read,
    /// Its success changes the world: progress. A call of it that only looks (`identity.looks`) counts as of class `read`.
    Mutates,
    /// Transparent to every detector.
    Exempt,
}

/// The effective policy of one tool.
#[derive(Debug, Clone, Default)]
pub struct ToolPolicy {
    /// What it is.
    pub class: ToolClass,
    /// Outcomes are left out of `outcome_repeat`'s key and of `result_aware`; no part in `stagnation`, `stuck`, `state_repeat`.
    pub args_only: bool,
    /// Which arguments make its identity.
    pub call: CallRules,
    /// How its results are compared.
    pub outcome: ToolOutcomeRules,
    /// Thresholds and `block_at` of counts are multiplied by this (its own factor × `poll_factor` for class `poll`), rounded up.
    pub factor: f64,
    /// The same for a call of it that asks again, whatever the tool's class: its own factor × `poll_factor`.
    pub poll_factor: f64,
    /// Takes part in `stagnation`; `tools` of that detector.
    pub in_stagnation: bool,
    /// Takes part in `stuck`; `tools` of that detector.
    pub in_stuck: bool,
    /// Counted by `fleet_rate`; `tools` of that detector.
    pub in_fleet_rate: bool,
    /// Runs a command line; `identity.shell_tools`.
    pub is_shell: bool,
    /// Lets time pass; `identity.waiters`.
    pub waits: bool,
}

impl ToolPolicy {
    /// A threshold or `block_at` of a count under this tool's factor, rounded up; 0 stays 0. `is_poll`: for a call that asks again.
    #[must_use]
    pub fn scaled(&self, count: u32, is_poll: bool) -> u32 {
        let factor = if is_poll { self.poll_factor } else { self.factor };
        if (factor - 1.0).abs() < f64::EPSILON {
            count
        } else {
            (f64::from(count) * factor).ceil().min(f64::from(u32::MAX)) as u32
        }
    }
}
