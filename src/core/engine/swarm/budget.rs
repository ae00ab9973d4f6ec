//! What a group uses of a budget: sums of its windows, and the steps that they cross.
//!
//! A step is a function of a window's sum and of the limits alone, and each is published once in its window. So how uses are cut into
//! reports and in which order they come changes no id. Other limits change the step, never the sum: raised, they lift a block at once.

use crate::detect::{CommandText, safe};
use crate::engine::command::{Action, Advice, Fact, ReasonCode, Scope};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publishing::board::Verdict;
use crate::engine::swarm::counter::SwarmCounter;
use crate::engine::swarm::crossing::{Crossing, Judge};
use crate::engine::swarm::sums::{SwarmReport, UsedWindow};
use crate::event::EventTime;
use crate::limits::{SESSION_BUDGET_MS, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{Budget, BudgetStep, Mode, Per, Quantity, Reached};
use crate::whom::Whom;

/// The budget of a counter, under the policy in force.
pub(super) struct BudgetRule<'a> {
    judge: &'a Judge<'a>,
    name: &'a str,
    whom: &'a Whom,
    per: Per,
    /// None where the policy has it no more for this group: what was used stays known to the end of the window.
    budget: Option<&'a Budget>,
}

/// A step that a window's sum has crossed.
struct Crossed<'a> {
    budget: &'a Budget,
    start: EventTime,
    step: BudgetStep,
    reached: Reached,
}

impl<'a> BudgetRule<'a> {
    /// None where the counter is of no budget.
    pub(super) fn of(judge: &'a Judge<'a>) -> Option<Self> {
        let SwarmCallKey::Budget { budget: name, per, whom } = judge.key else { return None };
        let budget = judge.policy.budgets.get(name, *per).filter(|budget| budget.is_of(whom));
        Some(Self { judge, name, whom, per: *per, budget })
    }

    /// Adds what a report says was used. The window that it was used in, unless it comes too late.
    pub(super) fn take(&self, counter: &mut SwarmCounter, report: &SwarmReport, out: &mut Effects) -> Option<EventTime> {
        let UsedWindow { start: Some(start), used } = report.used? else { return None };
        let is_late = start.plus_ms(self.judge.rules.pane_life_ms) < counter.time;
        if !self.judge.is_aligned && self.has_end() && is_late {
            out.counters.swarm_late = out.counters.swarm_late.saturating_add(u32::try_from(used.calls).unwrap_or(u32::MAX));
            return None;
        }
        counter.time = counter.time.max(used.last);
        counter.panes.entry(start).or_default().used.get_or_insert_default().add(&used);
        Some(start)
    }

    /// Compares what was used with the limits of another policy. What is over binds nobody any more, whatever the limit is now.
    pub(super) fn compare(&self, counter: &mut SwarmCounter, out: &mut Effects) {
        let is_open = |start: &EventTime| !self.has_end() || self.end_of(*start) > counter.time;
        let windows: Vec<EventTime> = counter.panes.keys().copied().filter(is_open).collect();
        for start in windows {
            self.judge(counter, start, counter.time, true, out);
        }
    }

    /// Publishes the steps that a window's sum has crossed; lifts what it has not crossed under the limits in force.
    pub(super) fn judge(
        &self,
        counter: &mut SwarmCounter,
        start: EventTime,
        record_time: EventTime,
        is_compared: bool,
        out: &mut Effects,
    ) {
        let Some(used) = counter.panes.get(&start).and_then(|pane| pane.used) else { return };
        let issued_at = record_time.max(counter.time);
        let reached = |step| self.budget.and_then(|budget| budget.reached(step, &used));
        let crossed =
            BudgetStep::ALL.into_iter().filter(|step| reached(*step).is_some()).map(|step| step as u32).max().unwrap_or(0);
        let period = counter.periods.get(&start.0);
        let episode = period.map(|period| period.episode);
        let mut published = period.map_or(0, |period| period.step);
        let is_of = |verdict: &Verdict| Some(verdict.episode) == episode;
        if crossed < published || (self.is_shadow() && counter.board.verdicts.iter().any(is_of)) {
            self.lower(counter, start, crossed, issued_at, out);
        }
        // Another policy may block where the step was crossed in shadow. Without one a block is placed once: how often it would be placed again
        // depended on where reports are cut.
        let is_open = !self.has_end() || self.end_of(start) > counter.time;
        let blocks = self.budget.is_some_and(|budget| budget.mode == Mode::Block) && crossed == BudgetStep::Block as u32;
        if is_compared && blocks && is_open && !counter.board.verdicts.blocks().any(is_of) {
            published = published.min(BudgetStep::Nudge as u32);
        }
        for step in BudgetStep::ALL.into_iter().filter(|step| *step as u32 > published) {
            if let (Some(budget), Some(reached)) = (self.budget, reached(step)) {
                let crossing = self.crossing(&Crossed { budget, start, step, reached }, issued_at);
                self.judge.publish(counter, crossing, out);
            }
        }
    }

    fn is_shadow(&self) -> bool {
        self.budget.is_some_and(|budget| budget.mode == Mode::Shadow)
    }

    /// The window has another step by the limits in force: what it published above that is void.
    fn lower(&self, counter: &mut SwarmCounter, start: EventTime, step: u32, issued_at: EventTime, out: &mut Effects) {
        let Some(period) = counter.periods.get_mut(&start.0) else { return };
        period.step = step;
        // A nudge stands while its step does.
        if step >= BudgetStep::Block as u32 && !self.is_shadow() {
            return;
        }
        let lifted = counter.board.verdicts.lift(period.episode);
        out.verdicts_changed |= !lifted.is_empty();
        if let Some(block) = lifted.into_iter().find(|verdict| verdict.action == Action::Block) {
            self.judge.unblock(counter, start.0, &block, ReasonCode::Policy, issued_at, out);
        }
    }

    fn crossing(&self, step: &Crossed<'_>, issued_at: EventTime) -> Crossing {
        let is_block = step.step == BudgetStep::Block;
        let end = self.end_of(step.start);
        let Reached { quantity, used, limit } = step.reached;
        Crossing {
            start: step.start.0,
            // Also of a session: its first use as it is known here depends on where reports were cut.
            epoch: step.start.0,
            step: step.step as u32,
            action: if is_block { Action::Block } else { Action::Nudge },
            level: if is_block { 4 } else { 1 },
            // Whoever obeys leaves a shadow alone: a warning is for people.
            is_shadow: step.budget.mode == Mode::Shadow || step.step == BudgetStep::Warn,
            scope: Scope::default(),
            issued_at,
            expires_at: if self.has_end() { end } else { issued_at.plus_ms(SESSION_BUDGET_MS) },
            confidence: 1.0,
            text: self.text(step),
            evidence: vec![
                ("budget", Fact::Text(self.name.to_owned())),
                ("step", Fact::Text(step.step.as_str().to_owned())),
                ("quantity", Fact::Text(quantity.as_str().to_owned())),
                ("count", Fact::Count(used)),
                ("threshold", Fact::Count(limit)),
                ("window_ms", Fact::Count(self.per.window_ms().unsigned_abs())),
            ],
            contributors: Vec::new(),
        }
    }

    /// Whether its windows end by the clock; that of a session or a tree lives as long as they do.
    const fn has_end(&self) -> bool {
        self.judge.rules.period_ms > 0
    }

    /// End of the window that begins at a time; 0 of one without.
    const fn end_of(&self, start: EventTime) -> EventTime {
        self.judge.rules.period_end(start.0)
    }

    /// The numbers, whose they are and what to do. It names no label's value and no agent.
    fn text(&self, step: &Crossed<'_>) -> CommandText {
        let Reached { quantity, used, limit } = step.reached;
        let whose = self.whom.kind.these();
        let name = safe(self.name, TOOL_NAME_CHARS_SHOWN);
        let (used, limit) = (shown(quantity, used), shown(quantity, limit));
        let per = match self.per {
            Per::Session | Per::Tree => "",
            Per::Minute => " a minute",
            Per::Hour => " an hour",
            Per::Day => " a day",
            Per::Week => " a week",
        };
        let what = format!("{used} of {limit}{per}");
        let text = match step.step {
            BudgetStep::Block => format!(
                "The budget {name} of {whose} is used up: {what}. Calls are refused until it begins anew or a person raises it. Stop here, and \
                 list what is left undone."
            ),
            BudgetStep::Warn | BudgetStep::Nudge => {
                format!("The budget {name} of {whose}: {what}. Finish with what is known, and list what is left undone.")
            }
        };
        CommandText::new(text, format!("budget {name}: {what}")).advising(Advice::AskHuman)
    }
}

/// An amount, for people and for the agent.
fn shown(quantity: Quantity, amount: u64) -> String {
    match quantity {
        Quantity::Calls => format!("{amount} calls"),
        Quantity::Tokens => format!("{amount} tokens"),
        Quantity::Cost => format!("{}.{:02} US dollars", amount / 1_000_000, amount % 1_000_000 / 10_000),
        Quantity::Wall => format!("{} s", amount / 1_000),
        Quantity::Agents => format!("{amount} agents"),
    }
}
