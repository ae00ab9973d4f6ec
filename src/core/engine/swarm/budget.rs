//! What a group uses of a budget: sums of its windows, and the steps that they cross.
//!
//! A step is a function of a window's sum and of the limits alone, and each is published once in its window. So how uses are cut into
//! reports and in which order they come changes no id. Other limits change the step, never the sum: raised, they lift a block at once.

use crate::detect::{CommandText, safe};
use crate::engine::effects::{Effects, SwarmCallKey};
use crate::engine::publishing::command::{Action, Advice, Command, Fact, Origin, ReasonCode, Scope, ScopeKind, Trigger, Verdict};
use crate::engine::subject::{Group, GroupKind};
use crate::engine::swarm::counter::{Period, SwarmCounter};
use crate::engine::swarm::sums::{SwarmReport, UsedWindow};
use crate::engine::{swarm::input::SwarmInput, swarm::rules::Rules, timer::TimerKind};
use crate::event::EventTime;
use crate::limits::{SESSION_BUDGET_MS, TOOL_NAME_CHARS_SHOWN};
use crate::policy::{Budget, BudgetScope, BudgetStep, Detector, Mode, Per, Policy, Quantity, Reached};

/// The counter of a group's budget, under one policy.
pub(super) struct BudgetCounter<'a> {
    app: &'a str,
    policy: &'a Policy,
    key: &'a SwarmCallKey,
    name: &'a str,
    per: Per,
    /// None where the policy has it no more for this group: what was used stays known to the end of the window.
    budget: Option<&'a Budget>,
}

impl<'a> BudgetCounter<'a> {
    /// None where the key is of no budget.
    pub(super) fn of(app: &'a str, policy: &'a Policy, key: &'a SwarmCallKey) -> Option<Self> {
        let SwarmCallKey::Budget { tenant, budget: name, per, group } = key else { return None };
        let budget = policy.budgets.get(name, *per).filter(|budget| covers(budget, tenant, group));
        Some(Self { app, policy, key, name, per: *per, budget })
    }

    pub(super) fn apply(&self, counter: &mut SwarmCounter, input: SwarmInput, is_aligned: bool, out: &mut Effects) {
        match input {
            SwarmInput::Report(report) => self.report(counter, &report, is_aligned, out),
            SwarmInput::Compare => {
                // What is over binds nobody any more, whatever the limit is now.
                let is_over = |start: EventTime| self.has_end() && self.end_of(start) <= counter.time;
                let windows: Vec<EventTime> = counter.panes.keys().copied().filter(|start| !is_over(*start)).collect();
                for start in windows {
                    self.judge(counter, start, counter.time, true, out);
                }
                self.arm(counter, out);
            }
            SwarmInput::Timer(kind, at) => self.fire(counter, kind, at, out),
            // A reset is of a swarm's loops; a budget is raised by its policy.
            SwarmInput::Reset(_) => {}
        }
    }

    fn report(&self, counter: &mut SwarmCounter, report: &SwarmReport, is_aligned: bool, out: &mut Effects) {
        let Some(UsedWindow { start, used }) = report.used else { return };
        let rules = Rules::of(self.policy, self.key, "");
        if !is_aligned && self.has_end() && start.plus_ms(rules.pane_life_ms) < counter.time {
            out.counters.swarm_late = out.counters.swarm_late.saturating_add(u32::try_from(used.calls).unwrap_or(u32::MAX));
            return;
        }
        counter.time = counter.time.max(used.last);
        counter.panes.entry(start).or_default().used.get_or_insert_default().add(&used);
        if is_aligned {
            counter.bound(&rules, out);
        }
        self.judge(counter, start, report.record_time, false, out);
        self.arm(counter, out);
    }

    /// Publishes the steps that a window's sum has crossed; lifts what it has not crossed under the limits in force.
    fn judge(&self, counter: &mut SwarmCounter, start: EventTime, record_time: EventTime, is_compared: bool, out: &mut Effects) {
        let Some(used) = counter.panes.get(&start).and_then(|pane| pane.used) else { return };
        let reached = |step| self.budget.and_then(|budget| budget.reached(step, &used));
        let crossed =
            BudgetStep::ALL.into_iter().filter(|step| reached(*step).is_some()).map(|step| step as u32).max().unwrap_or(0);
        let period = counter.periods.get(&start.0);
        let episode = period.map(|period| period.episode);
        let mut published = period.map_or(0, |period| period.step);
        let is_of = |verdict: &Verdict| Some(verdict.episode) == episode;
        if crossed < published || (self.is_shadow() && counter.verdicts.iter().any(is_of)) {
            self.lower(counter, start, crossed, record_time, out);
        }
        // Another policy may block where the step was crossed in shadow. Without one a block is placed once: how often it would be placed again
        // depended on where reports are cut.
        let is_open = !self.has_end() || self.end_of(start) > counter.time;
        let blocks = self.budget.is_some_and(|budget| budget.mode == Mode::Block) && crossed == BudgetStep::Block as u32;
        if is_compared && blocks && is_open && !counter.verdicts.blocks().any(is_of) {
            published = published.min(BudgetStep::Nudge as u32);
        }
        for step in BudgetStep::ALL.into_iter().filter(|step| *step as u32 > published) {
            if let (Some(budget), Some(reached)) = (self.budget, reached(step)) {
                self.publish(counter, &Crossed { budget, start, step, reached }, record_time, out);
            }
        }
    }

    fn is_shadow(&self) -> bool {
        self.budget.is_some_and(|budget| budget.mode == Mode::Shadow)
    }

    /// The window has another step by the limits in force: what it published above that is void.
    fn lower(&self, counter: &mut SwarmCounter, start: EventTime, step: u32, record_time: EventTime, out: &mut Effects) {
        let Some(period) = counter.periods.get_mut(&start.0) else { return };
        period.step = step;
        // A nudge stands while its step does.
        if step >= BudgetStep::Block as u32 && !self.is_shadow() {
            return;
        }
        let lifted = counter.verdicts.lift(period.episode);
        out.verdicts_changed |= !lifted.is_empty();
        let block = lifted.into_iter().find(|verdict| verdict.action == Action::Block);
        let Some(block) = block else { return };
        period.seq += 1;
        let end = self.end_of(start);
        let origin = Origin {
            app: self.app,
            subject: self.key.subject(),
            epoch: period.epoch,
            seq: period.seq,
            cause: &end.0.to_string(),
            issued_at: record_time.max(counter.time).max(block.issued_at),
            trigger: Trigger::Window { end },
        };
        out.commands.push(Command::unblock(origin, &block, ReasonCode::Policy));
    }

    fn publish(&self, counter: &mut SwarmCounter, step: &Crossed<'_>, record_time: EventTime, out: &mut Effects) {
        let before = counter.periods.get(&step.start.0).copied();
        // Also of a session: its first use as it is known here depends on where reports were cut.
        let epoch = before.map_or(step.start.0, |period| period.epoch);
        let seq = before.map_or(1, |period| period.seq + 1);
        let issued_at = record_time.max(counter.time);
        let end = self.end_of(step.start);
        let action = if step.step == BudgetStep::Block { Action::Block } else { Action::Nudge };
        let origin = Origin {
            app: self.app,
            subject: self.key.subject(),
            epoch,
            seq,
            cause: &end.0.to_string(),
            issued_at,
            trigger: Trigger::Window { end },
        };
        let scope = Scope { kind: ScopeKind::Group, tool: None, tools: Vec::new(), fingerprint: None, only: Vec::new() };
        let expires_at = if self.has_end() { end } else { issued_at.plus_ms(SESSION_BUDGET_MS) };
        let level = if action == Action::Block { 4 } else { 1 };
        let text = self.text(step);
        let begun = Command::new(origin, action, ReasonCode::Detector(Detector::Budget), scope, level, expires_at);
        let Reached { quantity, used, limit } = step.reached;
        let command = Command {
            episode: before.map_or(begun.id, |period| period.episode),
            // Whoever obeys leaves a shadow alone: a warning is for people.
            is_shadow: step.budget.mode == Mode::Shadow || step.step == BudgetStep::Warn,
            confidence: Some(1.0),
            summary: text.summary,
            evidence: vec![
                ("budget", Fact::Text(self.name.to_owned())),
                ("step", Fact::Text(step.step.as_str().to_owned())),
                ("quantity", Fact::Text(quantity.as_str().to_owned())),
                ("count", Fact::Count(used)),
                ("threshold", Fact::Count(limit)),
                ("window_ms", Fact::Count(self.per.window_ms().unsigned_abs())),
            ],
            message: Some(text.text),
            advice: Some(text.advice),
            ..begun
        };
        counter.periods.insert(step.start.0, Period { epoch, seq, step: step.step as u32, episode: command.episode });
        if counter.verdicts.activate(&command, Detector::Budget, counter.time) {
            out.verdicts_changed = true;
        }
        out.commands.push(command);
    }

    /// Whether its windows end by the clock; that of a session or a tree lives as long as they do.
    const fn has_end(&self) -> bool {
        self.per.window_ms() > 0
    }

    /// End of the window that begins at a time; 0 of one without.
    const fn end_of(&self, start: EventTime) -> EventTime {
        EventTime(if self.has_end() { start.0.saturating_add(self.per.window_ms()) } else { 0 })
    }

    /// The numbers, whose they are and what to do. It names no label's value and no agent.
    fn text(&self, step: &Crossed<'_>) -> CommandText {
        let Reached { quantity, used, limit } = step.reached;
        let whose = match self.key {
            SwarmCallKey::Budget { group, .. } => match group.kind {
                GroupKind::Agent => "this agent",
                GroupKind::Session => "this session",
                GroupKind::Swarm => "this swarm",
                GroupKind::Tenant => "this tenant",
                GroupKind::Label => "those with this label",
                GroupKind::Tree => "this agent and all that it started",
            },
            SwarmCallKey::Swarm { .. } | SwarmCallKey::Fleet { .. } | SwarmCallKey::Tree { .. } => "",
        };
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

    fn arm(&self, counter: &mut SwarmCounter, out: &mut Effects) {
        counter.arm_panes(&Rules::of(self.policy, self.key, ""), out);
        counter.arm_verdicts(out);
    }

    fn fire(&self, counter: &mut SwarmCounter, kind: TimerKind, at: EventTime, out: &mut Effects) {
        counter.timers.fired(kind);
        match kind {
            TimerKind::Panes => {
                let rules = Rules::of(self.policy, self.key, "");
                counter.panes.retain(|start, _| start.plus_ms(rules.pane_life_ms) > at);
                counter.periods.retain(|start, _| counter.panes.contains_key(&EventTime(*start)));
            }
            _ => out.verdicts_changed = !counter.verdicts.expire(at).is_empty(),
        }
        if counter.panes.is_empty() && counter.verdicts.is_empty() {
            counter.forget(out);
        } else {
            self.arm(counter, out);
        }
    }
}

/// Whether a budget is still one of this group: its scope and its names may have changed.
fn covers(budget: &Budget, tenant: &str, group: &Group) -> bool {
    let is_each = match group.kind {
        GroupKind::Session => budget.per == Per::Session,
        GroupKind::Tree => budget.per == Per::Tree,
        _ => false,
    };
    let name = match (&budget.scope, group.kind) {
        (BudgetScope::Agent, GroupKind::Agent)
        | (BudgetScope::Swarm, GroupKind::Swarm)
        | (BudgetScope::Tree, GroupKind::Tree) => Some(group.name.as_str()),
        (BudgetScope::Tenant, GroupKind::Session | GroupKind::Tree) => return is_each && budget.covers(tenant),
        // Which sessions or trees of a swarm or a label have it is decided where they are.
        (_, GroupKind::Session | GroupKind::Tree) => return is_each,
        (BudgetScope::Tenant, GroupKind::Tenant) => Some(tenant),
        (BudgetScope::Label(key), GroupKind::Label) => {
            group.name.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('='))
        }
        _ => None,
    };
    name.is_some_and(|name| budget.covers(name))
}

/// A step that a window's sum has crossed.
struct Crossed<'a> {
    budget: &'a Budget,
    start: EventTime,
    step: BudgetStep,
    reached: Reached,
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
