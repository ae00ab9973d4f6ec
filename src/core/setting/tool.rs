//! The policy of a tool: class, identity, volatile fields, threshold factor. One record serves all detectors.

use crate::identity::{CallRules, ToolOutcomeRules};
use crate::setting::words;

words! {
    pub enum ToolClass {
        Normal = "normal",
        /// Asked again until the answer changes: thresholds of counts are multiplied.
        Poll = "poll",
        /// It only reads, and feeds `exploration`.
        Read = "read",
        /// Its success changes the world: progress. A call of it that only looks (`identity.looks`) counts as of class `read`.
        Mutates = "mutates",
        /// Starts another agent: `swarm_repeat` counts the same brief given by several agents, whatever the call answers.
        Spawn = "spawn",
        /// It is transparent to every detector.
        Exempt = "exempt",
    }
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

/// Tools that a block of all that start agents names.
const SPAWNING_MAX: usize = 64;
/// A slot of the table of names that is free.
const FREE: u32 = u32::MAX;

/// Tool policies by name: exact names first looked up, then prefixes; a tool without an entry has the default.
#[derive(Debug, Clone, Default)]
pub struct ToolTable {
    /// Resolved policies of exact names. A prefix entry that also covers the name is already merged in.
    exact: Vec<(String, ToolPolicy)>,
    /// Places in `exact` by the hash of the name, at least half of them free.
    slots: Box<[u32]>,
    /// Policies of prefixes (written `name*`), longest prefix first, each with all entries that cover it merged in file order.
    prefixes: Vec<(String, ToolPolicy)>,
    /// Policy of every other tool.
    other: ToolPolicy,
}

impl ToolTable {
    /// A table of names, each once, of prefixes, longest first, and of all others.
    #[must_use]
    pub(crate) fn new(exact: Vec<(String, ToolPolicy)>, prefixes: Vec<(String, ToolPolicy)>, other: ToolPolicy) -> Self {
        let mut slots = vec![FREE; (exact.len() * 2).next_power_of_two()].into_boxed_slice();
        for (place, (name, _)) in (0..FREE).zip(&exact) {
            let mut at = hash(name) & (slots.len() - 1);
            while slots.get(at).is_some_and(|slot| *slot != FREE) {
                at = (at + 1) & (slots.len() - 1);
            }
            if let Some(slot) = slots.get_mut(at) {
                *slot = place;
            }
        }
        Self { exact, slots, prefixes, other }
    }

    /// The policy of a tool. One of a server, as `mcp__jobs__get_status`, has that of its last name where it has none of its own.
    #[must_use]
    pub fn get(&self, tool: &str) -> &ToolPolicy {
        // Names are short: a loop finds it sooner than a search for texts is set up.
        let own_name = || tool.get(tool.as_bytes().windows(2).rposition(|pair| pair == b"__")? + 2..);
        self.find(tool).or_else(|| self.find(own_name()?)).unwrap_or(&self.other)
    }

    /// Tools of class `spawn`: names, and beginnings of names with a `*`; at most `SPAWNING_MAX`.
    #[must_use]
    pub fn spawning(&self) -> Vec<String> {
        let starts = |policy: &ToolPolicy| policy.class == ToolClass::Spawn;
        let exact = self.exact.iter().filter(|(_, policy)| starts(policy)).map(|(name, _)| name.clone());
        let prefixes = self.prefixes.iter().filter(|(_, policy)| starts(policy)).map(|(prefix, _)| format!("{prefix}*"));
        exact.chain(prefixes).take(SPAWNING_MAX).collect()
    }

    fn find(&self, tool: &str) -> Option<&ToolPolicy> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash(tool) & mask;
        while let Some((name, policy)) = self.slots.get(at).and_then(|place| self.exact.get(*place as usize)) {
            if name == tool {
                return Some(policy);
            }
            at = (at + 1) & mask;
        }
        self.prefixes.iter().find(|(prefix, _)| tool.starts_with(prefix.as_str())).map(|(_, policy)| policy)
    }
}

/// Bytes of a name that enter its hash, at its beginning and at its end each.
const HASHED_BYTES: usize = 8;

/// A hash of length, beginning and end of a name: few names of a policy share all three.
fn hash(name: &str) -> usize {
    let ends = [name.as_bytes().first_chunk::<HASHED_BYTES>(), name.as_bytes().last_chunk()];
    let [first, last] = match ends {
        [Some(first), Some(last)] => [*first, *last].map(u64::from_le_bytes),
        _ => [name.bytes().fold(0, |hash, byte| hash << 8 | u64::from(byte)), 0],
    };
    let mixed = (first ^ last.rotate_left(32) ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_and_no_other() {
        let of = |factor| ToolPolicy { factor, ..ToolPolicy::default() };
        let names: Vec<String> = (0..400).map(|number| format!("{}tool_{number}_end", "x".repeat(number % 12))).collect();
        let exact = names.iter().zip(1..).map(|(name, number)| (name.clone(), of(f64::from(number)))).collect();
        let table = ToolTable::new(exact, vec![("db_".to_owned(), of(-1.0))], of(0.0));
        for (name, number) in names.iter().zip(1..) {
            assert!((table.get(name).factor - f64::from(number)).abs() < 0.5, "{name}");
            assert!((table.get(&format!("mcp__x__{name}")).factor - f64::from(number)).abs() < 0.5, "{name}");
            assert!(table.get(&format!("{name}?")).factor.abs() < 0.5, "{name}");
        }
        assert!((table.get("db_query").factor + 1.0).abs() < 0.5 && (table.get("mcp__a__db_x").factor + 1.0).abs() < 0.5);
        assert!(table.get("").factor.abs() < 0.5 && ToolTable::default().get("any").factor.abs() < 0.5);
    }
}
