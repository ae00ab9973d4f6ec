//! What session tasks send to the swarm stage: sums that merge in any order (rules W1, W2).

use std::collections::BTreeMap;

use crate::engine::command::IdentityRecipe;
use crate::engine::effects::{BudgetUse, SwarmCall, SwarmCallKey, SwarmReset, TreeFact, TreeUse};
use crate::engine::swarm::spawned::SpawnedWindow;
use crate::engine::timer::TimerKind;
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
    /// Of a budget: what was used in a window of it. Of a tree: in its whole life.
    pub used: Option<UsedWindow>,
    /// Of a tree: what was seen of agents that were started.
    pub spawned: Option<Box<SpawnedWindow>>,
}

/// What was used of a budget in one of its windows, or of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsedWindow {
    /// Event time at which the window begins; `None` of a tree, whose window is its whole life.
    pub start: Option<EventTime>,
    pub used: Used,
}

/// One input of a swarm counter.
#[derive(Debug, Clone)]
pub enum SwarmInput {
    Report(SwarmReport),
    /// Calls up to this time no longer count.
    Reset(EventTime),
    /// Another policy is in force: what was used is compared with its limits.
    Compare,
    /// A timer of this counter fell due.
    Timer(TimerKind, EventTime),
}

impl SwarmReport {
    /// Of nothing yet.
    #[must_use]
    pub const fn empty(record_time: EventTime) -> Self {
        Self { tool: String::new(), recipe: IdentityRecipe::Opaque, record_time, entries: Vec::new(), used: None, spawned: None }
    }

    /// What was used of a budget, or of a tree.
    #[must_use]
    pub fn of_use(record_time: EventTime, used: UsedWindow) -> Self {
        Self { used: Some(used), ..Self::empty(record_time) }
    }

    /// With its entries in their order.
    fn sorted(mut self) -> Self {
        self.entries.sort_by(|a, b| (&a.session_id, &a.agent_id).cmp(&(&b.session_id, &b.agent_id)));
        self
    }

    /// Event time of the last call or use in it.
    #[must_use]
    pub fn last(&self) -> Option<EventTime> {
        let of_entries = self.entries.iter().map(|entry| entry.last).max();
        let of_spawned = self.spawned.as_ref().map(|window| window.spawned.last);
        of_entries.max(self.used.map(|window| window.used.last)).max(of_spawned)
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
    /// What was seen of trees, by tenant and tree, one report for each pane; what was used stands in that of the whole life, which is of no
    /// pane.
    trees: BTreeMap<(String, String), BTreeMap<Option<EventTime>, SwarmReport>>,
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
fn reports(sums: impl Iterator<Item = (SwarmCallKey, Sum)>, sums_len: usize) -> Vec<(SwarmCallKey, SwarmReport)> {
    let mut reports = Vec::with_capacity(sums_len);
    for (key, Sum { tool, recipe, panes }) in sums {
        // Nearly every sum has one pane: the last of them takes what they have in common.
        let common = std::iter::repeat_n((key, tool, recipe), panes.len());
        for ((key, tool, recipe), (pane, Pane { record_time, agents })) in common.zip(panes) {
            let entry = |((session_id, agent_id), (calls, last))| SwarmEntry { pane, session_id, agent_id, calls, last };
            let entries = agents.into_iter().map(entry).collect();
            reports.push((pane, key, SwarmReport { tool, recipe, entries, ..SwarmReport::empty(record_time) }));
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
            // A budget and a tree count no calls one by one.
            SwarmCallKey::Budget { .. } | SwarmCallKey::Tree { .. } => return false,
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

    /// Adds what an event shows of a tree. True when it takes memory of its own.
    pub fn add_tree(&mut self, policy: &Policy, seen: TreeUse) -> bool {
        let TreeUse { tenant, tree, session_id, agent_id, time, record_time, what } = seen;
        let panes = self.trees.entry((tenant, tree)).or_default();
        let before = panes.len();
        let of_pane = EventTime(time.0 - time.0.rem_euclid(policy.detectors.tree.pane_ms().max(1)));
        let pane = (!matches!(what, TreeFact::Used(_))).then_some(of_pane);
        let report = panes.entry(pane).or_insert_with(|| SwarmReport::empty(record_time));
        report.record_time = report.record_time.max(record_time);
        let Some(start) = pane else {
            if let TreeFact::Used(used) = what {
                let window = report.used.get_or_insert(UsedWindow { start: None, used: Used::default() });
                window.used.add(&used);
            }
            return panes.len() > before;
        };
        let spawned = &mut report.spawned.get_or_insert_with(|| Box::new(SpawnedWindow::beginning(start))).spawned;
        spawned.last = spawned.last.max(time);
        match what {
            TreeFact::Began { depth } => {
                spawned.began = spawned.began.saturating_add(1);
                spawned.depth = spawned.depth.max(depth);
            }
            TreeFact::Spawned(brief) => {
                spawned.note(&brief);
                let is_same = |entry: &&mut SwarmEntry| entry.session_id == session_id && entry.agent_id == agent_id;
                if let Some(entry) = report.entries.iter_mut().find(is_same) {
                    entry.calls = entry.calls.saturating_add(1);
                    entry.last = entry.last.max(time);
                } else {
                    report.entries.push(SwarmEntry { pane: start, session_id, agent_id, calls: 1, last: time });
                }
                return true;
            }
            TreeFact::InVain => spawned.vain = spawned.vain.saturating_add(1),
            TreeFact::Used(_) => {}
        }
        panes.len() > before
    }

    /// Takes the sums of one swarm out, in the order of panes and keys: they are to be sent before its reset.
    pub fn take(&mut self, swarm: &SwarmReset) -> Vec<(SwarmCallKey, SwarmReport)> {
        let names = (swarm.tenant.clone(), swarm.swarm_id.clone());
        let sums = self.swarms.remove(&names).unwrap_or_default();
        let (tenant, swarm_id) = names;
        let sums_len = sums.len();
        reports(of_swarm(tenant, swarm_id, sums), sums_len)
    }

    /// Whether there is nothing to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.swarms.is_empty() && self.fleets.is_empty() && self.used.is_empty() && self.trees.is_empty()
    }

    /// Takes everything out, in the order of panes, then of keys: swarms by tenant, name and fingerprint, then fleets by tenant and
    /// fingerprint. Budgets by window and key stand behind them, then trees.
    pub fn drain_sorted(&mut self) -> Vec<(SwarmCallKey, SwarmReport)> {
        let Self { swarms, fleets, used, trees } = std::mem::take(self);
        let sums_len = swarms.values().chain(fleets.values()).map(BTreeMap::len).sum();
        let swarms = swarms.into_iter().flat_map(|((tenant, swarm_id), sums)| of_swarm(tenant, swarm_id, sums));
        let mut reports = reports(swarms.chain(fleets.into_iter().flat_map(|(tenant, sums)| of_fleet(tenant, sums))), sums_len);
        reports.extend(used.into_iter().map(|((start, key), UsedSum { record_time, used })| {
            (key, SwarmReport::of_use(record_time, UsedWindow { start: Some(start), used }))
        }));
        reports.extend(trees.into_iter().flat_map(|((tenant, tree), panes)| {
            let key = SwarmCallKey::Tree { tenant, tree };
            std::iter::repeat_n(key, panes.len()).zip(panes.into_values().map(SwarmReport::sorted))
        }));
        reports
    }

    /// Forgets everything: the lane's transaction was aborted, and the records come again.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
