//! What session tasks send to the swarm stage: sums that merge in any order (rules W1, W2).

use std::collections::BTreeMap;

use crate::engine::effects::{BudgetUse, SwarmCall, SwarmCallKey, SwarmReset};
use crate::engine::publishing::command::IdentityRecipe;
use crate::event::EventTime;
use crate::identity::Hash128;
use crate::policy::{Policy, Used};

/// Calls of one agent in one pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmEntry {
    /// Event time at which the pane begins.
    pub pane: EventTime,
    pub session_id: String,
    pub agent_id: String,
    pub calls: u32,
    /// Event time of the last.
    pub last: EventTime,
}

/// Sums of one key in one pane, as one commit of one lane reports them. A report of several panes would let the last of them end the first:
/// the swarm stage's time is that of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmReport {
    /// Name of the tool, for the text.
    pub tool: String,
    /// How a worker recomputes the fingerprint.
    pub recipe: IdentityRecipe,
    /// Greatest record timestamp behind the sums.
    pub record_time: EventTime,
    /// Sorted by session and agent.
    pub entries: Vec<SwarmEntry>,
    /// Of a budget: what was used in a window of it.
    pub used: Option<UsedWindow>,
}

/// What was used of a budget in one of its windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedWindow {
    /// Event time at which the window begins.
    pub start: EventTime,
    pub used: Used,
}

impl SwarmReport {
    /// What was used of a budget.
    #[must_use]
    pub const fn of_use(record_time: EventTime, used: UsedWindow) -> Self {
        Self { tool: String::new(), recipe: IdentityRecipe::Opaque, record_time, entries: Vec::new(), used: Some(used) }
    }

    /// Event time of the last call or use in it.
    #[must_use]
    pub fn last(&self) -> Option<EventTime> {
        let of_entries = self.entries.iter().map(|entry| entry.last).max();
        of_entries.max(self.used.map(|window| window.used.last))
    }
}

/// Sums of a lane since its last commit. Many keys share their names: these are looked up first, and then only a number is compared.
#[derive(Debug, Default)]
pub struct SwarmSums {
    /// Sums of swarms, by tenant and swarm.
    swarms: BTreeMap<(String, String), Sums>,
    /// Sums of fleets, by tenant.
    fleets: BTreeMap<String, Sums>,
    /// What was used of budgets, by window.
    used: BTreeMap<(EventTime, SwarmCallKey), UsedSum>,
}

/// Sums of one swarm, or of one tenant's fleet, by fingerprint.
type Sums = BTreeMap<Hash128, Sum>;

#[derive(Debug)]
struct UsedSum {
    record_time: EventTime,
    used: Used,
}

#[derive(Debug)]
struct Sum {
    tool: String,
    recipe: IdentityRecipe,
    panes: BTreeMap<EventTime, Pane>,
}

#[derive(Debug)]
struct Pane {
    record_time: EventTime,
    /// Calls and last time by session and agent.
    agents: BTreeMap<(String, String), (u32, EventTime)>,
}

/// The sums of a swarm with their keys, in order.
fn of_swarm(tenant: String, swarm_id: String, sums: Sums) -> impl Iterator<Item = (SwarmCallKey, Sum)> {
    let key = move |fingerprint| SwarmCallKey::Swarm { tenant: tenant.clone(), swarm_id: swarm_id.clone(), fingerprint };
    sums.into_iter().map(move |(fingerprint, sum)| (key(fingerprint), sum))
}

/// The sums of a tenant's fleet with their keys, in order.
fn of_fleet(tenant: String, sums: Sums) -> impl Iterator<Item = (SwarmCallKey, Sum)> {
    sums.into_iter().map(move |(fingerprint, sum)| (SwarmCallKey::Fleet { tenant: tenant.clone(), fingerprint }, sum))
}

/// Reports in the order of their panes, then of their keys. The sums come in the order of their keys.
fn reports(sums: impl Iterator<Item = (SwarmCallKey, Sum)>) -> Vec<(SwarmCallKey, SwarmReport)> {
    let mut reports = Vec::new();
    for (key, Sum { tool, recipe, panes }) in sums {
        // Nearly every sum has one pane: the last of them takes what they have in common.
        let common = std::iter::repeat_n((key, tool, recipe), panes.len());
        for ((key, tool, recipe), (pane, Pane { record_time, agents })) in common.zip(panes) {
            let entry = |((session_id, agent_id), (calls, last))| SwarmEntry { pane, session_id, agent_id, calls, last };
            let entries = agents.into_iter().map(entry).collect();
            reports.push((pane, key, SwarmReport { tool, recipe, record_time, entries, used: None }));
        }
    }
    // Of one pane they are in the order of their keys already.
    reports.sort_by_key(|(pane, ..)| *pane);
    reports.into_iter().map(|(_, key, report)| (key, report)).collect()
}

impl SwarmSums {
    /// Adds one call. True when it takes memory of its own: the first of its agent in its pane.
    pub fn add(&mut self, policy: &Policy, call: SwarmCall) -> bool {
        let (sums, fingerprint, pane_ms) = match call.key {
            SwarmCallKey::Swarm { tenant, swarm_id, fingerprint } => {
                (self.swarms.entry((tenant, swarm_id)).or_default(), fingerprint, policy.detectors.swarm_repeat.pane_ms)
            }
            SwarmCallKey::Fleet { tenant, fingerprint } => {
                (self.fleets.entry(tenant).or_default(), fingerprint, policy.detectors.fleet_rate.window_ms)
            }
            // A budget counts no calls one by one.
            SwarmCallKey::Budget { .. } => return false,
        };
        let pane = EventTime(call.time.0 - call.time.0.rem_euclid(pane_ms.max(1)));
        let sum = sums.entry(fingerprint).or_insert_with(|| Sum {
            recipe: call.form.recipe(policy, &call.tool),
            tool: call.tool,
            panes: BTreeMap::new(),
        });
        let pane = sum.panes.entry(pane).or_insert(Pane { record_time: call.record_time, agents: BTreeMap::new() });
        pane.record_time = pane.record_time.max(call.record_time);
        let (calls, last) = pane.agents.entry((call.session_id, call.agent_id)).or_insert((0, call.time));
        *calls = calls.saturating_add(1);
        *last = call.time.max(*last);
        *calls == 1
    }

    /// Adds what was used of a budget. True when it takes memory of its own: the first of its window.
    pub fn add_use(&mut self, used: BudgetUse) -> bool {
        let before = self.used.len();
        let sum =
            self.used.entry((used.window, used.key)).or_insert(UsedSum { record_time: used.record_time, used: Used::default() });
        sum.record_time = sum.record_time.max(used.record_time);
        sum.used.add(&used.used);
        self.used.len() > before
    }

    /// Takes the sums of one swarm out, in the order of panes and keys: they are to be sent before its reset.
    pub fn take(&mut self, swarm: &SwarmReset) -> Vec<(SwarmCallKey, SwarmReport)> {
        let names = (swarm.tenant.clone(), swarm.swarm_id.clone());
        let sums = self.swarms.remove(&names).unwrap_or_default();
        let (tenant, swarm_id) = names;
        reports(of_swarm(tenant, swarm_id, sums))
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.swarms.is_empty() && self.fleets.is_empty() && self.used.is_empty()
    }

    /// Takes everything out, in the order of panes, then of keys: swarms by tenant, name and fingerprint, then fleets by tenant and
    /// fingerprint. Budgets by window and key stand behind them.
    pub fn drain_sorted(&mut self) -> Vec<(SwarmCallKey, SwarmReport)> {
        let Self { swarms, fleets, used } = std::mem::take(self);
        let swarms = swarms.into_iter().flat_map(|((tenant, swarm_id), sums)| of_swarm(tenant, swarm_id, sums));
        let mut reports = reports(swarms.chain(fleets.into_iter().flat_map(|(tenant, sums)| of_fleet(tenant, sums))));
        reports.extend(used.into_iter().map(|((start, key), UsedSum { record_time, used })| {
            (key, SwarmReport::of_use(record_time, UsedWindow { start, used }))
        }));
        reports
    }

    /// Forgets everything: the lane's transaction was aborted, and the records come again.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
