//! The swarm engine: sums of one fingerprint over all workers of a swarm, of one definition over the fleet, of what a group uses of a
//! budget (`budget`), and of a tree of agents (`tree`).
//!
//! Decisions are functions of pane sums, which only grow: how calls are cut into reports, in which order they arrive, and how many
//! lanes there are changes no id (rules W2, W3). A command is sent when a window's sum crosses a step, never when a pane closes.

mod budget;
mod counter;
mod crossing;
mod loops;
mod rules;
mod spawned;
mod sums;
mod tree;
mod windows;

use std::sync::Arc;

use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::swarm::crossing::Judge;
use crate::engine::swarm::rules::{Rules, life_ms, period_ms};
use crate::engine::{swarm::budget::BudgetRule, swarm::tree::TreeRule, timer::TimerKind};
use crate::event::EventTime;
use crate::limits::{BUDGET_KEYS_MAX, SWARM_PANE_LIFE_MS_MIN};
use crate::policy::{Detector, Policy};

pub use counter::{Period, SwarmCounter};
pub use spawned::{SeenBrief, Spawned, SpawnedWindow};
pub use sums::{SwarmEntry, SwarmInput, SwarmReport, SwarmSums, UsedWindow};
pub use windows::{Contribution, Pane, Panes};

/// Applies reports to counters under one policy.
#[derive(Debug, Clone)]
pub struct SwarmEngine {
    app: Arc<str>,
    policy: Arc<Policy>,
    is_aligned: bool,
}

impl SwarmEngine {
    /// An engine for an application and a policy.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { app: app.into(), policy, is_aligned: false }
    }

    /// The same, for a stage whose time waits for its slowest source: a counter's own greatest time makes no call late.
    #[must_use]
    pub fn aligned(self, is_aligned: bool) -> Self {
        Self { is_aligned, ..self }
    }

    /// How long after its start a pane may still be added to, event time in ms; `None` in an endless window, where nothing is late.
    #[must_use]
    pub fn pane_life_ms(&self, key: &SwarmCallKey) -> Option<i64> {
        life_ms(&self.policy, key)
    }

    /// The pane of a counter that keeps the calls of a reported one.
    #[must_use]
    pub fn pane_of(&self, key: &SwarmCallKey, reported: EventTime) -> EventTime {
        Rules::of(&self.policy, key, "").pane_of(reported)
    }

    /// How long a swarm's reset must be remembered for counters that begin later, event time in ms: as long as a call before it is not
    /// late, and no period holds both sides of it. `None` = for ever.
    #[must_use]
    pub fn floor_life_ms(&self) -> Option<i64> {
        let swarm = &self.policy.detectors.swarm_repeat;
        let is_bounded = swarm.window_ms > 0 && swarm.cooldown_ms > 0;
        is_bounded.then(|| swarm.window_ms.max(SWARM_PANE_LIFE_MS_MIN).saturating_add(swarm.cooldown_ms))
    }

    /// Counters that one task keeps of one detector.
    #[must_use]
    pub fn keys_max(&self, detector: Detector) -> u64 {
        match detector {
            Detector::FleetRate => u64::from(self.policy.detectors.fleet_rate.keys_max),
            Detector::Budget => BUDGET_KEYS_MAX,
            _ => u64::from(self.policy.detectors.swarm_repeat.keys_max),
        }
    }

    /// Until when a counter is worth keeping where there are too many: since then it was unseen. One that has published a step counts as
    /// seen to the end of its period: forgotten within it, it could publish the same step again. A period without end would keep it for
    /// ever, and counters that come later would find no room: there it leaves by its age, and what it publishes anew has the id it had.
    #[must_use]
    pub fn kept_until(&self, key: &SwarmCallKey, counter: &SwarmCounter) -> EventTime {
        let period_ms = period_ms(&self.policy, key);
        let published = counter.periods.keys().next_back().filter(|_| period_ms > 0);
        published.map_or(counter.time, |start| counter.time.max(EventTime(*start).plus_ms(period_ms)))
    }

    /// Applies one input to the counter of `key`. Cannot fail.
    pub fn apply(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, input: SwarmInput, out: &mut Effects) {
        let tool = if let SwarmInput::Report(report) = &input { &report.tool } else { &counter.tool };
        let rules = Rules::of(&self.policy, key, tool);
        let judge = Judge { app: &self.app, policy: &self.policy, key, rules, is_aligned: self.is_aligned };
        let is_of_loops = matches!(key, SwarmCallKey::Swarm { .. } | SwarmCallKey::Fleet { .. });
        match input {
            SwarmInput::Report(report) => judge.report(counter, report, out),
            // A reset is of a swarm's loops: a budget is raised by its policy.
            SwarmInput::Reset(time) if is_of_loops => judge.reset_loops(counter, time, out),
            SwarmInput::Compare => BudgetRule::of(&judge).into_iter().for_each(|budget| budget.compare(counter, out)),
            SwarmInput::Timer(kind, due) => judge.fire(counter, kind, due, out),
            SwarmInput::Reset(_) => {}
        }
        if !out.forgotten {
            counter.arm(&judge.rules, out);
        }
    }
}

impl Judge<'_> {
    fn report(&self, counter: &mut SwarmCounter, report: SwarmReport, out: &mut Effects) {
        let record_time = report.record_time;
        let (budget, tree) = (BudgetRule::of(self), TreeRule::of(self));
        let touched: Vec<EventTime> = match (&budget, &tree) {
            (Some(budget), _) => budget.take(counter, &report, out).into_iter().collect(),
            (_, Some(tree)) => tree.take(counter, report, out).into_iter().collect(),
            (None, None) => self.take_calls(counter, report, out),
        };
        let Some(first) = touched.first().copied() else { return };
        if self.is_aligned {
            counter.bound(&self.rules, out);
        }
        // Sums of lanes that still count under the policy before, or did, arrive after the detector was switched off.
        match (&budget, &tree) {
            _ if !self.rules.mode.is_on() => {}
            (Some(budget), _) => budget.judge(counter, first, record_time, false, out),
            (_, Some(tree)) => tree.judge(counter, first, record_time, out),
            (None, None) => self.judge_loops(counter, &touched, record_time, out),
        }
    }

    /// A timer that was due at `at` has fired.
    fn fire(&self, counter: &mut SwarmCounter, kind: TimerKind, at: EventTime, out: &mut Effects) {
        match kind {
            TimerKind::Panes => counter.expire_panes(&self.rules, at),
            TimerKind::SwarmVerdicts => out.verdicts_changed = !counter.board.verdicts.expire(at).is_empty(),
            TimerKind::Idle | TimerKind::OpenCalls | TimerKind::Verdicts | TimerKind::Stop => return,
        }
        counter.timers.fired(kind);
        if counter.is_empty() {
            counter.forget(out);
        }
    }
}
