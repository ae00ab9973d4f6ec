//! What session tasks add up for the swarm stage between two commits: partial aggregates, and the resets between them.

use loopwarden_core::engine::{BudgetUse, SwarmCall, SwarmCallKey, SwarmEntry, SwarmReport, SwarmReset, SwarmSums, TreeUse};
use loopwarden_core::{event::EventTime, limits::REPORT_BYTES, policy::Policy};
use loopwarden_log::{Destination, StagedSum};
use loopwarden_state::report::{Sum, report_key, reset_key};

/// Bytes an entry of a report takes besides its names.
const ENTRY_BYTES: usize = 32;
/// Bytes a sum takes in memory besides its names.
pub(crate) const SUM_BYTES: usize = 160;
/// Bytes a reset counts for: a record in each of some partitions.
const RESET_BYTES: usize = 32 * SUM_BYTES;

/// Sums and resets of a lane since its last commit. Every commit sends them all (rule W1): held back, a crash would lose them, since
/// the offsets have moved on.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    sums: SwarmSums,
    /// What must come before the rest: a swarm's reset, and in front of it what was counted before it. In the order of the log, so that
    /// a commit between two of them, or none, ends the same.
    before: Vec<Part>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are reports, and each is handed on once")]
enum Part {
    Report(SwarmCallKey, SwarmReport),
    Reset(SwarmReset, EventTime),
}

impl Sums {
    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.sums.is_empty()
    }

    /// Counts a call in its pane. Returns the bytes it takes.
    pub(crate) fn add(&mut self, call: SwarmCall, policy: &Policy) -> usize {
        let bytes = SUM_BYTES + call.session_id.len() + call.agent_id.len() + call.tool.len();
        if self.sums.add(policy, call) { bytes } else { 0 }
    }

    /// Adds what was used of a budget. Returns the bytes it takes.
    pub(crate) fn add_use(&mut self, used: BudgetUse) -> usize {
        // Senders choose the names.
        let names = match &used.key {
            SwarmCallKey::Budget { budget, whom, .. } => whom.tenant.len() + budget.len() + whom.name.len(),
            SwarmCallKey::Swarm { .. } | SwarmCallKey::Fleet { .. } | SwarmCallKey::Tree { .. } => 0,
        };
        if self.sums.add_use(used) { SUM_BYTES + names } else { 0 }
    }

    /// Adds what an event shows of a tree of agents. Returns the bytes it takes.
    pub(crate) fn add_tree(&mut self, seen: TreeUse, policy: &Policy) -> usize {
        // Senders choose the names; a brief is a sketch.
        let bytes = 2 * SUM_BYTES + seen.tenant.len() + seen.tree.len() + seen.session_id.len() + seen.agent_id.len();
        if self.sums.add_tree(policy, seen) { bytes } else { 0 }
    }

    /// Calls of a swarm up to a time no longer count. Returns the bytes it takes.
    pub(crate) fn reset(&mut self, reset: SwarmReset, record_time: EventTime) -> usize {
        self.before.extend(self.sums.take(&reset).into_iter().map(|(key, report)| Part::Report(key, report)));
        self.before.push(Part::Reset(reset, record_time));
        RESET_BYTES
    }

    /// Takes out what is to be staged: resets, each to every partition, and sums in the order of their keys.
    pub(crate) fn drain(&mut self, partitions: u32) -> Vec<StagedSum> {
        let (before, rest) = (std::mem::take(&mut self.before), self.sums.drain_sorted());
        let mut staged = Vec::with_capacity(before.len() + rest.len());
        let rest = rest.into_iter().map(|(key, report)| Part::Report(key, report));
        for part in before.into_iter().chain(rest) {
            match part {
                Part::Report(key, report) => {
                    let bytes = report_key(&key);
                    let mut stage = |key, bytes, report: SwarmReport| {
                        let timestamp_ms = report.record_time.0;
                        let sum = Sum::Report(key, report);
                        staged.push(StagedSum { destination: Destination::SwarmCounts, key: bytes, sum, timestamp_ms });
                    };
                    if is_large(&report) {
                        for part in split(report) {
                            stage(key.clone(), bytes.clone(), part);
                        }
                    } else {
                        stage(key, bytes, report);
                    }
                }
                Part::Reset(floor, record_time) => {
                    let of = |partition| StagedSum {
                        destination: Destination::SwarmPartition { partition },
                        key: reset_key(&floor),
                        sum: Sum::Reset(floor.time),
                        timestamp_ms: record_time.0,
                    };
                    staged.extend((0..partitions).map(of));
                }
            }
        }
        staged
    }
}

const fn bytes_of(entry: &SwarmEntry) -> usize {
    entry.session_id.len() + entry.agent_id.len() + ENTRY_BYTES
}

/// Whether a record of it would be too large to be written.
fn is_large(report: &SwarmReport) -> bool {
    report.entries.iter().map(bytes_of).sum::<usize>() >= REPORT_BYTES
}

/// A report of many agents as several: what they add up to is the same.
fn split(report: SwarmReport) -> Vec<SwarmReport> {
    let SwarmReport { tool, recipe, record_time, entries, used, spawned } = report;
    let part = |entries| SwarmReport { tool: tool.clone(), recipe: recipe.clone(), entries, ..SwarmReport::empty(record_time) };
    let (mut parts, mut current, mut bytes) = (Vec::new(), Vec::new(), 0);
    for entry in entries {
        bytes += bytes_of(&entry);
        current.push(entry);
        if bytes >= REPORT_BYTES {
            bytes = 0;
            parts.push(part(std::mem::take(&mut current)));
        }
    }
    if !current.is_empty() {
        parts.push(part(current));
    }
    // What is of no entry stands once.
    if let Some(first) = parts.first_mut() {
        (first.used, first.spawned) = (used, spawned);
    }
    parts
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::IdentityRecipe;
    use loopwarden_core::identity::{CallRules, Hash128};

    use super::*;

    #[test]
    fn a_report_too_large_for_a_record_is_several_and_loses_nothing() {
        let entry = |number: u32| SwarmEntry {
            pane: EventTime(0),
            session_id: format!("{number:0250}"),
            agent_id: format!("{number:0250}"),
            calls: number,
            last: EventTime(i64::from(number)),
        };
        let report = SwarmReport {
            tool: "t".to_owned(),
            recipe: IdentityRecipe::Args(CallRules::default()),
            record_time: EventTime(9),
            entries: (0..5_000).map(entry).collect(),
            used: None,
            spawned: None,
        };
        assert!(is_large(&report));
        let parts = split(report.clone());
        assert!(parts.len() > 5);
        for part in &parts {
            let key = SwarmCallKey::Fleet { tenant: String::new(), fingerprint: Hash128::NONE };
            assert!(Sum::Report(key, part.clone()).encode().unwrap().len() < 2 * REPORT_BYTES);
        }
        assert_eq!(parts.into_iter().flat_map(|part| part.entries).collect::<Vec<_>>(), report.entries);
    }
}
