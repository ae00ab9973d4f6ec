//! What session tasks send to the swarm stage: sums that merge in any order (rules W1, W2).

use std::collections::BTreeMap;

use crate::engine::command::IdentityRecipe;
use crate::engine::effects::SwarmCall;
use crate::engine::effects::SwarmCallKey;
use crate::engine::effects::SwarmReset;
use crate::event::EventTime;
use crate::identity::Hash128;
use crate::policy::Policy;

/// Calls of one agent in one pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmEntry {
    /// Start of the pane.
    pub pane: EventTime,
    /// Session of the caller.
    pub session_id: String,
    /// Agent of the caller.
    pub agent_id: String,
    /// How many calls.
    pub calls: u32,
    /// Event time of the last.
    pub last: EventTime,
}

/// Sums of one key, as one commit of one lane reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmReport {
    /// Tool, for the text.
    pub tool: String,
    /// How a worker recomputes the fingerprint.
    pub recipe: IdentityRecipe,
    /// Greatest record timestamp behind the sums.
    pub record_time: EventTime,
    /// Sorted by pane, session, agent.
    pub entries: Vec<SwarmEntry>,
}

/// Sums of a lane since its last commit.
#[derive(Debug, Default)]
pub struct SwarmSums {
    sums: BTreeMap<SwarmCallKey, Sum>,
}

#[derive(Debug)]
struct Sum {
    tool: String,
    recipe: IdentityRecipe,
    record_time: EventTime,
    entries: BTreeMap<(EventTime, String, String), (u32, EventTime)>,
}

impl Sum {
    fn into_report(self) -> SwarmReport {
        let entries = self.entries.into_iter();
        let entry = |((pane, session_id, agent_id), (calls, last))| SwarmEntry { pane, session_id, agent_id, calls, last };
        SwarmReport { tool: self.tool, recipe: self.recipe, record_time: self.record_time, entries: entries.map(entry).collect() }
    }
}

impl SwarmSums {
    /// Adds one call. True when it takes memory of its own: the first of its agent in its pane.
    pub fn add(&mut self, policy: &Policy, call: SwarmCall) -> bool {
        let pane_ms = match call.key {
            SwarmCallKey::Swarm { .. } => policy.detectors.swarm_repeat.pane_ms,
            SwarmCallKey::Fleet { .. } => policy.detectors.fleet_rate.window_ms,
        };
        let pane = EventTime(call.time.0 - call.time.0.rem_euclid(pane_ms.max(1)));
        let sum = self.sums.entry(call.key).or_insert_with(|| Sum {
            recipe: call.form.recipe(policy, &call.tool),
            tool: call.tool,
            record_time: call.record_time,
            entries: BTreeMap::new(),
        });
        sum.record_time = sum.record_time.max(call.record_time);
        let (calls, last) = sum.entries.entry((pane, call.session_id, call.agent_id)).or_insert((0, call.time));
        *calls = calls.saturating_add(1);
        *last = call.time.max(*last);
        *calls == 1
    }

    /// Takes the sums of one swarm out, in key order: they are to be sent before its reset.
    pub fn take(&mut self, swarm: &SwarmReset) -> Vec<(SwarmCallKey, SwarmReport)> {
        let of = |fingerprint| SwarmCallKey::Swarm {
            tenant: swarm.tenant.clone(),
            swarm_id: swarm.swarm_id.clone(),
            fingerprint: Hash128(fingerprint),
        };
        let keys: Vec<SwarmCallKey> = self.sums.range(of(0)..=of(u128::MAX)).map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.sums.remove_entry(key)).map(|(key, sum)| (key, sum.into_report())).collect()
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    /// Takes everything out, in key order.
    pub fn drain_sorted(&mut self) -> Vec<(SwarmCallKey, SwarmReport)> {
        std::mem::take(&mut self.sums).into_iter().map(|(key, sum)| (key, sum.into_report())).collect()
    }

    /// Forgets everything: the lane's transaction was aborted, and the records come again.
    pub fn clear(&mut self) {
        self.sums.clear();
    }
}
