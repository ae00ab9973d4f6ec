//! What session tasks add up for the swarm stage between two commits: partial aggregates, and the resets between them.

use loopwarden_core::engine::{BudgetUse, SwarmCall, SwarmCallKey, SwarmEntry, SwarmReport, SwarmReset, SwarmSums};
use loopwarden_core::event::EventTime;
use loopwarden_core::limits::REPORT_BYTES;
use loopwarden_core::policy::Policy;
use loopwarden_log::{Destination, Headers, Output};
use loopwarden_state::StoreError;
use loopwarden_state::report::{SwarmRecord, report_key, reset_key};

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
            SwarmCallKey::Budget { tenant, budget, group, .. } => tenant.len() + budget.len() + group.name.len(),
            SwarmCallKey::Swarm { .. } | SwarmCallKey::Fleet { .. } => 0,
        };
        if self.sums.add_use(used) { SUM_BYTES + names } else { 0 }
    }

    /// Calls of a swarm up to a time no longer count. Returns the bytes it takes.
    pub(crate) fn reset(&mut self, reset: SwarmReset, record_time: EventTime) -> usize {
        self.before.extend(self.sums.take(&reset).into_iter().map(|(key, report)| Part::Report(key, report)));
        self.before.push(Part::Reset(reset, record_time));
        RESET_BYTES
    }

    /// Takes out the records to be staged: resets, each to every partition, and sums in the order of their keys.
    pub(crate) fn drain(&mut self, partitions: u32) -> Result<Vec<Output>, StoreError> {
        let mut outputs = Vec::new();
        let rest = self.sums.drain_sorted().into_iter().map(|(key, report)| Part::Report(key, report));
        for part in std::mem::take(&mut self.before).into_iter().chain(rest) {
            match part {
                Part::Report(key, report) => {
                    let parts = split(report);
                    for (key, part) in std::iter::repeat_n(report_key(&key), parts.len()).zip(parts) {
                        let record_time = part.record_time;
                        let value = SwarmRecord::Report(part).encode()?;
                        outputs.push(output(Destination::SwarmCounts, key, value, record_time));
                    }
                }
                Part::Reset(floor, record_time) => {
                    let (key, value) = (reset_key(&floor), SwarmRecord::Reset(floor.time).encode()?);
                    for partition in 0..partitions {
                        outputs.push(output(Destination::SwarmPartition { partition }, key.clone(), value.clone(), record_time));
                    }
                }
            }
        }
        Ok(outputs)
    }
}

fn output(destination: Destination, key: Vec<u8>, value: Vec<u8>, record_time: EventTime) -> Output {
    Output { destination, key, value: Some(value), headers: Headers::default(), timestamp_ms: record_time.0 }
}

/// A report of many agents as several: a record too large would never be written, and what they add up to is the same.
fn split(report: SwarmReport) -> Vec<SwarmReport> {
    let bytes_of = |entry: &SwarmEntry| entry.session_id.len() + entry.agent_id.len() + ENTRY_BYTES;
    if report.entries.iter().map(bytes_of).sum::<usize>() < REPORT_BYTES {
        return vec![report];
    }
    let SwarmReport { tool, recipe, record_time, entries, .. } = report;
    let part = |entries| SwarmReport { tool: tool.clone(), recipe: recipe.clone(), record_time, entries, used: None };
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
    parts
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::IdentityRecipe;
    use loopwarden_core::identity::CallRules;

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
        };
        let parts = split(report.clone());
        assert!(parts.len() > 5);
        for part in &parts {
            assert!(SwarmRecord::Report(part.clone()).encode().unwrap().len() < 2 * REPORT_BYTES);
        }
        assert_eq!(parts.into_iter().flat_map(|part| part.entries).collect::<Vec<_>>(), report.entries);
    }
}
