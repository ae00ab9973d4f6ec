//! A tree of agents: what it has used in its life, and what its agents start within a window, by the name of its root.
//!
//! What is compared only grows with what is seen, so how it is cut into reports and in which order they come changes no id: within a period a
//! nudge is published once, and a block once.

use crate::detect::tree::{Settings, TreeQuantity, text};
use crate::engine::command::{Action, Fact, Scope};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::swarm::counter::SwarmCounter;
use crate::engine::swarm::crossing::{Crossing, Judge};
use crate::engine::swarm::spawned::Spawned;
use crate::engine::swarm::sums::SwarmReport;
use crate::engine::swarm::windows::{contributors, is_in_window, pane_calls};
use crate::event::{EventTime, MAIN_AGENT};
use crate::policy::Mode;

/// Agents of a tree that are named in a nudge; where more of them are its root, all of the tree hear it.
const ROOTS_MAX: usize = 16;
/// Steps of a period, the greatest of which is kept.
const NUDGED: u32 = 1;
const BLOCKED: u32 = 2;

/// The tree of a counter, under the policy in force.
pub(super) struct TreeRule<'a> {
    judge: &'a Judge<'a>,
    tree: &'a str,
}

/// What the panes of a window hold together.
struct Window {
    /// Pane that it ends with.
    end: EventTime,
    /// Calls that start an agent.
    spawns: u32,
    seen: Spawned,
}

impl Window {
    /// Agents that were started: who starts them may be seen, or they themselves.
    fn agents(&self) -> u32 {
        self.spawns.max(self.seen.began)
    }

    fn of(&self, quantity: TreeQuantity) -> u32 {
        match quantity {
            TreeQuantity::Agents => self.agents(),
            TreeQuantity::Repeats => self.seen.repeats(),
            TreeQuantity::Vain => self.seen.vain,
            TreeQuantity::Depth => self.seen.depth,
        }
    }

    /// What has reached its limit; of several what is furthest above it. The number alone is a question, and all else goes before it.
    fn reached(&self, settings: &Settings, is_block: bool) -> Option<Reached> {
        let limits = TreeQuantity::ALL.into_iter().zip(settings.limits(is_block)).filter(|(_, limit)| *limit > 0);
        let reached = limits.map(|(quantity, limit)| Reached { quantity, count: self.of(quantity), limit });
        let part = |reached: &Reached| f64::from(reached.count) / f64::from(reached.limit);
        let is_number = |reached: &Reached| reached.quantity == TreeQuantity::Agents;
        let order = |a: &Reached, b: &Reached| is_number(b).cmp(&is_number(a)).then(part(a).total_cmp(&part(b)));
        reached.filter(|reached| reached.count >= reached.limit).max_by(order)
    }
}

/// A limit that was reached.
#[derive(Clone, Copy)]
struct Reached {
    quantity: TreeQuantity,
    count: u32,
    limit: u32,
}

impl<'a> TreeRule<'a> {
    /// None where the counter is of no tree.
    pub(super) fn of(judge: &'a Judge<'a>) -> Option<Self> {
        let SwarmCallKey::Tree { tree, .. } = judge.key else { return None };
        Some(Self { judge, tree })
    }

    /// Adds what a report shows. The pane in which agents were started, unless it comes too late.
    pub(super) fn take(&self, counter: &mut SwarmCounter, report: SwarmReport, out: &mut Effects) -> Option<EventTime> {
        let SwarmReport { entries, used, spawned, .. } = report;
        if let Some(window) = used {
            counter.time = counter.time.max(window.used.last);
            counter.life.get_or_insert_default().add(&window.used);
        }
        let window = spawned?;
        let rules = &self.judge.rules;
        if !self.judge.is_aligned && window.start.plus_ms(rules.pane_life_ms) < counter.time {
            let calls = entries.iter().fold(0, |sum: u32, entry| sum.saturating_add(entry.calls));
            out.counters.swarm_late = out.counters.swarm_late.saturating_add(calls);
            return None;
        }
        // Who starts agents is kept as who calls in a swarm is.
        counter.add(rules, true, entries, out);
        counter.time = counter.time.max(window.spawned.last);
        counter.panes.entry(window.start).or_default().spawned.get_or_insert_default().add(&window.spawned);
        Some(window.start)
    }

    /// Judges every window that a pane belongs to, earliest first.
    pub(super) fn judge(&self, counter: &mut SwarmCounter, touched: EventTime, record_time: EventTime, out: &mut Effects) {
        let rules = &self.judge.rules;
        let of_pane = |end: &&EventTime| is_in_window(rules.window_ms, touched, **end);
        let ends: Vec<EventTime> = counter.panes.range(touched..).map(|(end, _)| end).take_while(of_pane).copied().collect();
        // Without a tool that starts agents there is none to refuse.
        let may_block = rules.mode != Mode::Nudge && !self.judge.policy.tools.spawning().is_empty();
        let last = if may_block { BLOCKED } else { NUDGED };
        for end in ends {
            let published = counter.periods.get(&rules.period_of(end)).map_or(0, |period| period.step);
            if published >= last {
                continue;
            }
            let window = self.window(counter, end);
            for step in [NUDGED, BLOCKED].into_iter().filter(|step| (published + 1..=last).contains(step)) {
                if let Some(reached) = window.reached(&self.judge.policy.detectors.tree, step == BLOCKED) {
                    let crossing = self.crossing(counter, &window, step, reached, record_time.max(counter.time));
                    self.judge.publish(counter, crossing, out);
                }
            }
        }
    }

    fn window(&self, counter: &SwarmCounter, end: EventTime) -> Window {
        let from = EventTime(end.0.saturating_sub(self.judge.rules.window_ms - 1));
        let mut window = Window { end, spawns: 0, seen: Spawned::default() };
        for pane in counter.panes.range(from..=end).map(|(_, pane)| pane) {
            window.spawns = window.spawns.saturating_add(pane_calls(pane));
            if let Some(spawned) = &pane.spawned {
                window.seen.add(spawned);
            }
        }
        window
    }

    fn crossing(&self, counter: &SwarmCounter, window: &Window, step: u32, reached: Reached, issued_at: EventTime) -> Crossing {
        let rules = &self.judge.rules;
        let (start, is_block) = (rules.period_of(window.end), step == BLOCKED);
        Crossing {
            start,
            epoch: start,
            step,
            action: if is_block { Action::Block } else { Action::Nudge },
            level: if is_block { 3 } else { 1 },
            is_shadow: self.judge.is_shadow(),
            scope: self.scope(counter, window, is_block),
            issued_at,
            expires_at: self.judge.expiry(counter, window.end, issued_at, is_block),
            confidence: 1.0,
            text: text(reached.quantity, reached.count, rules.window_ms, is_block),
            evidence: evidence(counter, window, reached, rules.window_ms),
            contributors: contributors(&counter.panes, rules, window.end),
        }
    }

    /// A block binds all calls that start agents, in the whole tree. A nudge is for the root, where it is among those that start agents.
    fn scope(&self, counter: &SwarmCounter, window: &Window, is_block: bool) -> Scope {
        if is_block {
            return Scope { tools: self.judge.policy.tools.spawning(), ..Scope::default() };
        }
        let from = EventTime(window.end.0.saturating_sub(self.judge.rules.window_ms - 1));
        let agents = counter.panes.range(from..=window.end).flat_map(|(_, pane)| pane.agents.keys());
        let is_root = |(session, agent): &&(String, String)| {
            agent == self.tree || (session == self.tree && (agent == MAIN_AGENT || agent == session))
        };
        let mut roots: Vec<(String, String)> = agents.filter(is_root).cloned().collect();
        roots.sort_unstable();
        roots.dedup();
        Scope { only: if roots.len() > ROOTS_MAX { Vec::new() } else { roots }, ..Scope::default() }
    }
}

/// What was counted in the window, and what the tree has used in its life.
fn evidence(counter: &SwarmCounter, window: &Window, reached: Reached, window_ms: i64) -> Vec<(&'static str, Fact)> {
    let used = counter.life.unwrap_or_default();
    let count = |name, count: u32| (name, Fact::Count(u64::from(count)));
    vec![
        ("quantity", Fact::Text(reached.quantity.as_str().to_owned())),
        count("count", reached.count),
        count("threshold", reached.limit),
        count("agents", window.agents()),
        count("repeats", window.seen.repeats()),
        count("alike", window.seen.alike()),
        count("vain", window.seen.vain),
        count("depth", window.seen.depth),
        ("living", Fact::Count(used.agents.saturating_sub(used.ended))),
        ("calls", Fact::Count(used.calls)),
        ("tokens", Fact::Count(used.tokens)),
        ("cost_micro_usd", Fact::Count(used.cost_micro_usd)),
        ("window_ms", Fact::Count(window_ms.unsigned_abs())),
    ]
}
