//! The swarm engine: sums of one fingerprint over all workers of a swarm, of one definition over the fleet, of what a group uses of a
//! budget (`budget`), and of a tree of agents (`tree`).
//!
//! Decisions are functions of pane sums, which only grow: how calls are cut into reports, in which order they arrive, and how many
//! lanes there are changes no id (rules W2, W3). A command is sent when a window's sum crosses a step, never when a pane closes.

mod budget;
mod command;
mod counter;
mod input;
mod rules;
mod spawned;
mod sums;
mod tree;
mod windows;

use std::sync::Arc;

use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publishing::command::{Command, Origin, ReasonCode, Trigger, Verdict};
use crate::engine::swarm::command::{Crossing, command};
use crate::engine::swarm::rules::{Rules, life_ms, period_ms};
use crate::engine::swarm::windows::{is_block, is_shared, left_out, new_steps, window_sums, window_workers};
use crate::engine::{swarm::budget::BudgetCounter, swarm::tree::TreeCounter, timer::TimerKind};
use crate::event::EventTime;
use crate::limits::{BUDGET_KEYS_MAX, SWARM_PANE_LIFE_MS_MIN};
use crate::policy::{Detector, Policy};

pub use counter::{Period, SwarmCounter};
pub use input::SwarmInput;
pub use spawned::{SeenBrief, Spawned, SpawnedWindow, WHOLE_LIFE};
pub use sums::{SwarmEntry, SwarmReport, SwarmSums, UsedWindow};
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

    /// The pane of a counter that keeps the calls of a reported one. An endless window has a single one: its sum is all there is to know,
    /// however long the swarm lives.
    #[must_use]
    pub fn pane_of(&self, key: &SwarmCallKey, reported: EventTime) -> EventTime {
        if reported == WHOLE_LIFE || self.pane_life_ms(key).is_some() { reported } else { EventTime(0) }
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
        if let Some(of) = BudgetCounter::of(&self.app, &self.policy, key) {
            return of.apply(counter, input, self.is_aligned, out);
        }
        if let Some(of) = TreeCounter::of(&self.app, &self.policy, key) {
            return of.apply(counter, input, self.is_aligned, out);
        }
        match input {
            SwarmInput::Report(report) => self.report(key, counter, report, out),
            SwarmInput::Reset(time) => self.reset(key, counter, time, out),
            SwarmInput::Timer(kind, due) => self.fire(key, counter, kind, due, out),
            SwarmInput::Compare => {}
        }
    }

    fn report(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, report: SwarmReport, out: &mut Effects) {
        let SwarmReport { tool, recipe, record_time, entries, .. } = report;
        let rules = Rules::of(&self.policy, key, &tool);
        if counter.recipe.is_none() {
            counter.tool = tool;
            counter.recipe = Some(recipe);
        }
        let touched = counter.add(&rules, self.is_aligned, entries, |pane| self.pane_of(key, pane), out);
        if self.is_aligned {
            counter.bound(&rules, out);
        }
        if touched.is_empty() {
            return;
        }
        // Sums of lanes that still count under the policy before, or did, arrive after the detector was switched off.
        if rules.mode.is_on() {
            self.judge(key, counter, &rules, &touched, record_time, out);
        }
        counter.arm_panes(&rules, out);
    }

    /// Judges every window that a touched pane belongs to, earliest first.
    fn judge(
        &self,
        key: &SwarmCallKey,
        counter: &mut SwarmCounter,
        rules: &Rules,
        touched: &[EventTime],
        record_time: EventTime,
        out: &mut Effects,
    ) {
        for (end, sum) in window_sums(&counter.panes, rules, touched) {
            let start = if rules.period_ms > 0 { end.0 - end.0.rem_euclid(rules.period_ms) } else { 0 };
            let epoch = counter.floor.map_or(start, |floor| start.max(floor.0));
            let published_step =
                counter.periods.get(&start).filter(|period| period.epoch == epoch).map_or(0, |period| period.step);
            // Nearly every report crosses no step; workers are counted for those that do.
            if sum < rules.threshold || new_steps(rules, published_step, sum).next().is_none() {
                continue;
            }
            let workers = window_workers(&counter.panes, rules.worker, rules.window_ms, end);
            if workers < rules.workers_min {
                continue;
            }
            let mut steps: Vec<u32> = new_steps(rules, published_step, sum).collect();
            if steps.iter().any(|step| is_block(rules, *step)) && !is_shared(&counter.panes, rules, start, end) {
                steps.retain(|step| !is_block(rules, *step));
            }
            steps.sort_unstable();
            steps.dedup();
            if !steps.is_empty() {
                out.counters.swarm_steps = out.counters.swarm_steps.saturating_add(left_out(rules, published_step, sum));
            }
            for step in steps {
                let published = counter.periods.get(&start).filter(|period| period.epoch == epoch).copied();
                let crossing = Crossing { start, epoch, step, sum, workers, end, published };
                let command = command(&self.app, &self.policy, key, counter, rules, &crossing, record_time);
                counter.periods.insert(start, Period { epoch, seq: command.seq, step, episode: command.episode });
                if counter.verdicts.activate(&command, rules.detector, counter.time) {
                    out.verdicts_changed = true;
                    counter.arm_verdicts(out);
                }
                out.commands.push(command);
            }
        }
    }

    /// Calls up to this time no longer count; all steps are new. A block in force gets an `unblock`: who follows commands alone would
    /// stand by it until it expires.
    fn reset(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, time: EventTime, out: &mut Effects) {
        let floor = counter.raise_floor(time);
        let now = floor.max(counter.time);
        let lifted = counter.verdicts.unblock(now, |_| true);
        if counter.verdicts.clear() || !lifted.is_empty() {
            out.verdicts_changed = true;
            counter.arm_verdicts(out);
        }
        for block in &lifted {
            out.commands.extend(self.unblock(key, counter, block, now));
        }
        // What an earlier period published is void behind the floor, so nothing is left that a new counter would not know.
        if counter.panes.is_empty() && counter.periods.values().all(|period| period.epoch < floor.0) {
            counter.forget(out);
        }
    }

    /// The next command of the period that published last: above the block, and with the same id whichever commit it comes in.
    fn unblock(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, block: &Verdict, now: EventTime) -> Option<Command> {
        let rules = Rules::of(&self.policy, key, &counter.tool);
        let (start, period) = counter.periods.iter_mut().next_back()?;
        period.seq += 1;
        let end = rules.period_end(*start);
        let origin = Origin {
            app: &self.app,
            subject: key.subject(),
            epoch: period.epoch,
            seq: period.seq,
            cause: &end.to_string(),
            // A reset has the time at which its agent sent it, which may be before anybody had the block.
            issued_at: now.max(block.issued_at),
            trigger: Trigger::Window { end: EventTime(end) },
        };
        Some(Command::unblock(origin, block, ReasonCode::Reset))
    }

    /// A timer that was due at `at` has fired.
    fn fire(&self, key: &SwarmCallKey, counter: &mut SwarmCounter, kind: TimerKind, at: EventTime, out: &mut Effects) {
        match kind {
            TimerKind::Panes => {
                let rules = Rules::of(&self.policy, key, &counter.tool);
                counter.timers.fired(kind);
                counter.expire_panes(&rules, at);
                counter.arm_panes(&rules, out);
            }
            TimerKind::SwarmVerdicts => {
                counter.timers.fired(kind);
                out.verdicts_changed = !counter.verdicts.expire(at).is_empty();
                counter.arm_verdicts(out);
            }
            TimerKind::Idle | TimerKind::OpenCalls | TimerKind::Verdicts | TimerKind::Stop => return,
        }
        if counter.panes.is_empty() && counter.verdicts.is_empty() && counter.periods.is_empty() {
            counter.forget(out);
        }
    }
}
