//! The policy of a tool: class, identity, volatile fields, threshold factor. One record serves all detectors.

use crate::identity::{CallRules, ToolOutcomeRules};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolClass {
    #[default]
    Normal,
    /// Asked again until the answer changes: thresholds of counts are multiplied.
    Poll,
    /// It only reads, and feeds `exploration`.
    Read,
    /// Its success changes the world: progress. A call of it that only looks (`identity.looks`) counts as of class `read`.
    Mutates,
    /// Starts another agent: `swarm_repeat` counts the same brief given by several agents, whatever the call answers.
    Spawn,
    /// It is transparent to every detector.
    Exempt,
}

/// The effective policy of one tool.
#[derive(Debug, Clone, Default)]
pub struct ToolPolicy {
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
    /// It lets time pass (`identity.waiters`).
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

/// Tool policies by name: exact names first looked up, then prefixes; a tool without an entry has the default.
#[derive(Debug, Clone, Default)]
pub struct ToolTable {
    /// Resolved policies of exact names, sorted by [`ToolTable::rank`]. A prefix entry that also covers the name is already merged in.
    pub(crate) exact: Vec<(String, ToolPolicy)>,
    /// Policies of prefixes (written `name*`), longest prefix first, each with all entries that cover it merged in file order.
    pub(crate) prefixes: Vec<(String, ToolPolicy)>,
    /// Policy of every other tool.
    pub(crate) other: ToolPolicy,
}

impl ToolTable {
    /// The policy of a tool. One of a server, as `mcp__jobs__get_status`, has that of its last name where it has none of its own.
    #[must_use]
    pub fn get(&self, tool: &str) -> &ToolPolicy {
        // Names are short: a loop finds it sooner than a search for texts is set up.
        let own_name = || tool.get(tool.as_bytes().windows(2).rposition(|pair| pair == b"__")? + 2..);
        self.find(tool).or_else(|| self.find(own_name()?)).unwrap_or(&self.other)
    }

    fn find(&self, tool: &str) -> Option<&ToolPolicy> {
        if let Ok(found) = self.exact.binary_search_by(|(name, _)| Self::rank(name).cmp(&Self::rank(tool))) {
            return self.exact.get(found).map(|(_, policy)| policy);
        }
        self.prefixes.iter().find(|(prefix, _)| tool.starts_with(prefix.as_str())).map(|(_, policy)| policy)
    }

    /// What exact names are sorted by: length first, so that nearly every step of a search compares two numbers.
    pub(crate) const fn rank(name: &str) -> (usize, &str) {
        (name.len(), name)
    }
}
