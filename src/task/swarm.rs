//! The seam to the swarm stage: what session tasks add up for it. Every commit sends all sums (rule W1): held back, a crash would lose
//! them, since the offsets have moved on.

use std::collections::BTreeMap;

use crate::engine::SwarmCall;
use crate::engine::SwarmCallKey;
use crate::engine::SwarmReset;
use crate::event::EventTime;
use crate::limits::REPORT_AGENTS_MAX;
use crate::log::Destination;
use crate::log::Output;
use crate::policy::Policy;
use crate::store::StoreError;
pub use crate::store::report::Report;

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportKey {
    /// The counters of a whole swarm, to be forgotten.
    Reset {
        /// Tenant; empty = none.
        tenant: String,
        /// Swarm.
        swarm_id: String,
    },
    /// Calls.
    Calls(SwarmCallKey),
}

impl ReportKey {
    /// Key of the record.
    #[must_use]
    pub fn record_key(&self) -> String {
        match self {
            Self::Reset { tenant, swarm_id } => Report::key(tenant, swarm_id, ""),
            Self::Calls(SwarmCallKey::Swarm { tenant, swarm_id, fingerprint }) => {
                Report::key(tenant, swarm_id, &fingerprint.to_string())
            }
            Self::Calls(SwarmCallKey::Fleet { tenant, fingerprint }) => Report::key(tenant, "", &fingerprint.to_string()),
        }
    }
}

/// Sums of a lane since its last commit.
#[derive(Debug, Default)]
pub(super) struct Sums {
    reports: BTreeMap<ReportKey, Report>,
}

impl Sums {
    /// Counts a call in its pane.
    pub(super) fn add(&mut self, call: SwarmCall, policy: &Policy) {
        let pane_ms = match &call.key {
            SwarmCallKey::Swarm { .. } => policy.detectors.swarm_repeat.pane_ms,
            SwarmCallKey::Fleet { .. } => policy.detectors.fleet_rate.window_ms,
        };
        let pane = if pane_ms > 0 { call.time.0 - call.time.0.rem_euclid(pane_ms) } else { 0 };
        let report = self.reports.entry(ReportKey::Calls(call.key)).or_default();
        *report.panes.entry(pane).or_default() += 1;
        report.record_time = report.record_time.max(call.record_time);
        let last = report.agents.entry((call.session_id, call.agent_id)).or_insert(call.time);
        *last = call.time.max(*last);
        if report.agents.len() > REPORT_AGENTS_MAX {
            report.agents.pop_last();
        }
        report.tool = call.tool;
        report.recipe = Some(call.recipe);
    }

    /// Calls of a swarm up to a time no longer count: neither those sent before, nor those of this very report.
    pub(super) fn reset(&mut self, reset: SwarmReset, record_time: EventTime) {
        let key = ReportKey::Reset { tenant: reset.tenant, swarm_id: reset.swarm_id };
        let report = self.reports.entry(key).or_default();
        report.reset = report.reset.max(Some(reset.time));
        report.record_time = report.record_time.max(record_time);
    }

    /// The records to be staged, in the order of their keys; resets come first.
    pub(super) fn outputs(&self) -> Result<Vec<Output>, StoreError> {
        let output = |(key, report): (&ReportKey, &Report)| {
            Ok(Output {
                destination: Destination::SwarmCounts,
                key: key.record_key().into_bytes(),
                value: Some(report.encode()?),
                headers: Vec::new(),
                timestamp_ms: report.record_time.0,
            })
        };
        self.reports.iter().map(output).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::IdentityRecipe;
    use crate::identity::Hash128;
    use crate::policy::Detectors;

    fn call(agent: &str, time: i64) -> SwarmCall {
        SwarmCall {
            key: SwarmCallKey::Swarm { tenant: String::new(), swarm_id: "w".to_owned(), fingerprint: Hash128(7) },
            tool: "Bash".to_owned(),
            recipe: IdentityRecipe::Args,
            session_id: "s".to_owned(),
            agent_id: agent.to_owned(),
            time: EventTime(time),
            record_time: EventTime(time + 1),
        }
    }

    #[test]
    fn calls_of_one_fingerprint_become_one_report() {
        let mut policy = crate::task::session::tests::policy();
        policy.detectors = Detectors::default();
        policy.detectors.swarm_repeat.pane_ms = 60_000;
        let mut sums = Sums::default();
        for (agent, time) in [("a", 59_999), ("b", 60_000), ("a", 61_000)] {
            sums.add(call(agent, time), &policy);
        }
        let outputs = sums.outputs().unwrap();
        assert_eq!(outputs.len(), 1);
        let report = Report::decode(outputs[0].value.as_ref().unwrap()).unwrap();
        assert_eq!(report.panes, BTreeMap::from([(0, 1), (60_000, 2)]));
        assert_eq!(report.agents.values().copied().collect::<Vec<_>>(), [EventTime(61_000), EventTime(60_000)]);
        assert_eq!(report.record_time, EventTime(61_001));
        assert_eq!(outputs[0].key, b"\x1fw\x1f00000000000000000000000000000007");
    }
}
