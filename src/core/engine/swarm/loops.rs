//! Loops that many share: calls of one fingerprint in a swarm, or in the fleet of a tenant.

use crate::detect::{CommandText, Finding, TextContext, safe};
use crate::engine::command::{Action, Fact, IdentityRecipe, ReasonCode, Scope};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::swarm::counter::SwarmCounter;
use crate::engine::swarm::crossing::{Crossing, Judge};
use crate::engine::swarm::sums::SwarmReport;
use crate::engine::swarm::windows::{
    contributors, is_block, is_shared, latest, left_out, new_steps, window_sums, window_workers,
};
use crate::event::EventTime;
use crate::identity::{Hash64, Hash128};
use crate::limits::TOOL_NAME_CHARS_SHOWN;
use crate::policy::{Detector, Notify};

/// A window whose sum has reached steps that its period has not published.
struct Window {
    /// Pane that it ends with.
    end: EventTime,
    /// Start of its period, and where counting begins in that. Milliseconds.
    start: i64,
    epoch: i64,
    calls: u32,
    workers: u32,
}

impl Judge<'_> {
    /// Adds the calls of a report. The panes that were touched.
    pub(super) fn take_calls(&self, counter: &mut SwarmCounter, report: SwarmReport, out: &mut Effects) -> Vec<EventTime> {
        if counter.recipe.is_none() {
            counter.tool = report.tool;
            counter.recipe = Some(report.recipe);
        }
        counter.add(&self.rules, self.is_aligned, report.entries, out)
    }

    /// Judges every window that a touched pane belongs to, earliest first.
    pub(super) fn judge_loops(
        &self,
        counter: &mut SwarmCounter,
        touched: &[EventTime],
        record_time: EventTime,
        out: &mut Effects,
    ) {
        let rules = &self.rules;
        for (end, calls) in window_sums(&counter.panes, rules, touched) {
            let start = rules.period_of(end);
            let epoch = counter.floor.map_or(start, |floor| start.max(floor.0));
            let published = counter.published(start, epoch).map_or(0, |period| period.step);
            // Nearly every report crosses no step; workers are counted for those that do.
            if calls < rules.threshold || new_steps(rules, published, calls).next().is_none() {
                continue;
            }
            let workers = window_workers(&counter.panes, rules.worker, rules.window_ms, end);
            if workers < rules.workers_min {
                continue;
            }
            let mut steps: Vec<u32> = new_steps(rules, published, calls).collect();
            if steps.iter().any(|step| is_block(rules, *step)) && !is_shared(&counter.panes, rules, start, end) {
                steps.retain(|step| !is_block(rules, *step));
            }
            steps.sort_unstable();
            steps.dedup();
            if !steps.is_empty() {
                out.counters.swarm_steps = out.counters.swarm_steps.saturating_add(left_out(rules, published, calls));
            }
            let window = Window { end, start, epoch, calls, workers };
            for step in steps {
                let crossing = self.crossing_of_loop(counter, &window, step, record_time.max(counter.time));
                self.publish(counter, crossing, out);
            }
        }
    }

    /// Calls up to this time no longer count; all steps are new. A block in force gets an `unblock`: who follows commands alone would
    /// stand by it until it expires.
    pub(super) fn reset_loops(&self, counter: &mut SwarmCounter, time: EventTime, out: &mut Effects) {
        let floor = counter.raise_floor(time);
        let now = floor.max(counter.time);
        let lifted = counter.board.verdicts.unblock(now, |_| true);
        out.verdicts_changed |= counter.board.verdicts.clear() || !lifted.is_empty();
        if let Some(newest) = counter.periods.keys().next_back().copied() {
            for block in &lifted {
                self.unblock(counter, newest, block, ReasonCode::Reset, now, out);
            }
        }
        // What an earlier period published is void behind the floor, so nothing is left that a new counter would not know.
        if counter.panes.is_empty() && counter.periods.values().all(|period| period.epoch < floor.0) {
            counter.forget(out);
        }
    }

    fn crossing_of_loop(&self, counter: &SwarmCounter, window: &Window, step: u32, issued_at: EventTime) -> Crossing {
        let rules = &self.rules;
        let recipe = counter.recipe.clone().unwrap_or(IdentityRecipe::Opaque);
        // What a worker cannot recompute must not be refused by it. A swarm nudge it cannot match it gives at the tool's next call.
        let is_block = is_block(rules, step) && recipe != IdentityRecipe::Opaque;
        let tool = bound_tool(counter, &recipe).map_or_else(String::new, |tool| safe(tool, TOOL_NAME_CHARS_SHOWN));
        let (expires_at, confidence) = if rules.detector == Detector::FleetRate {
            (window.end.plus_ms(rules.window_ms), 1.0)
        } else {
            let above = f64::from(step.saturating_sub(rules.threshold));
            (self.expiry(counter, window.end, issued_at, is_block), 0.02f64.mul_add(above, 0.6).min(1.0))
        };
        Crossing {
            start: window.start,
            epoch: window.epoch,
            step,
            action: if is_block { Action::Block } else { Action::Nudge },
            level: if is_block { 3 } else { 1 },
            is_shadow: self.is_shadow(),
            issued_at,
            expires_at,
            confidence,
            text: self.text_of_loop(&tool, window, is_block),
            evidence: vec![
                ("count", Fact::Count(u64::from(window.calls))),
                ("threshold", Fact::Count(u64::from(rules.threshold))),
                ("calls_at_least", Fact::Count(u64::from(step))),
                ("workers", Fact::Count(u64::from(window.workers))),
                ("workers_at_least", Fact::Count(u64::from(rules.workers_min))),
                ("window_ms", Fact::Count(rules.window_ms.unsigned_abs())),
            ],
            contributors: contributors(&counter.panes, rules, window.end),
            scope: self.scope_of_loop(counter, window, recipe),
        }
    }

    fn scope_of_loop(&self, counter: &SwarmCounter, window: &Window, recipe: IdentityRecipe) -> Scope {
        let fingerprint = match self.key {
            SwarmCallKey::Swarm { fingerprint, .. } | SwarmCallKey::Fleet { fingerprint, .. } => *fingerprint,
            SwarmCallKey::Budget { .. } | SwarmCallKey::Tree { .. } => Hash128::NONE,
        };
        let only = match self.rules.notify {
            Notify::Latest => latest(&counter.panes, &self.rules, window.end).into_iter().collect(),
            Notify::Contributors => Vec::new(),
        };
        let tool = bound_tool(counter, &recipe).cloned();
        Scope { tool, fingerprint: Some((fingerprint, recipe)), only, ..Scope::default() }
    }

    fn text_of_loop(&self, tool: &str, window: &Window, is_block: bool) -> CommandText {
        let rules = &self.rules;
        let finding = Finding::new(rules.detector, rules.mode, Hash64::NONE, window.calls, rules.threshold)
            .within(rules.window_ms.unsigned_abs());
        self.policy.detectors.text(&TextContext { is_block, tool, workers: window.workers, ..TextContext::of(&finding) })
    }
}

/// The tool of every call that was counted. Calls that are equal in their arguments alone were made by tools of any name: the first one
/// is the word of whoever came first, and goes to no other agent.
const fn bound_tool<'a>(counter: &'a SwarmCounter, recipe: &IdentityRecipe) -> Option<&'a String> {
    match recipe {
        IdentityRecipe::Args(_) => None,
        IdentityRecipe::Call(_) | IdentityRecipe::Coarse(_) | IdentityRecipe::Opaque => Some(&counter.tool),
    }
}
