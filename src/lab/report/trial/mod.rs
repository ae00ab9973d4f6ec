//! What a controlled trial has shown: for each detector, what agents did after its first command, in both arms.

mod interval;

use std::collections::BTreeMap;

use loopwarden_core::detect::Flags;
use loopwarden_core::engine::{Action, ReasonCode};
use loopwarden_core::policy::{Arm, Detector};
use serde::Serialize;

use crate::report::loops::{Moment, MomentKind, is_live};
use crate::report::trial::interval::{Difference, Samples};

/// Agents whose first loop is remembered; beyond the bound any of them is entered as it stands.
const AGENTS_MAX: usize = 65_536;
/// So many calls in a row without a finding have left the loop.
const LEFT_CALLS: u32 = 8;

/// The trial of a replay.
#[derive(Debug, Clone, Default)]
pub struct TrialOutcomes {
    /// By the hash of their names. Only the first loop of an agent counts: a later one depends on it.
    agents: BTreeMap<u64, WatchedAgent>,
    arms: BTreeMap<(Detector, Arm), ArmOutcomes>,
}

/// An agent since the first command about it.
#[derive(Debug, Clone, Copy)]
struct WatchedAgent {
    detector: Detector,
    arm: Arm,
    calls: u64,
    cost_micro_usd: u64,
    /// Calls in a row without a finding.
    calls_outside: u32,
    is_entered: bool,
}

/// What was observed in one arm, after the first command of a detector.
#[derive(Debug, Clone, Copy, Default)]
struct ArmOutcomes {
    calls: Samples,
    cost_usd: Samples,
    recovered: Samples,
}

/// What is advised for a detector, by its trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advised {
    /// Too little is known to switch anything.
    #[default]
    Wait,
    /// Agents recover more often, or spend fewer calls in the loop.
    Keep,
    /// They recover less often, or spend more: its mode should be `shadow`.
    Shadow,
}

/// One detector in both arms. Differences are treatment less control, as intervals that hold in 95 of 100 trials at every look.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TrialRow {
    detector: &'static str,
    /// Agents in the treatment arm, with at least one command.
    treated: u64,
    /// Agents in the control arm, with at least one shadow command.
    control: u64,
    /// Calls in the loop after the first command, mean.
    calls: Option<f64>,
    calls_control: Option<f64>,
    calls_low: Option<f64>,
    calls_high: Option<f64>,
    /// US dollars of these calls less those of the control arm, where events have costs.
    usd_low: Option<f64>,
    usd_high: Option<f64>,
    /// Share of the agents that left the loop and went on.
    recovered: Option<f64>,
    recovered_control: Option<f64>,
    recovered_low: Option<f64>,
    recovered_high: Option<f64>,
    advised: Advised,
}

impl TrialOutcomes {
    /// Enters an event of an agent, in the order of its session.
    pub(super) fn note(&mut self, moment: &Moment<'_>, has_ended: bool) {
        if let Some(agent) = self.agents.get_mut(&moment.hash) {
            if !agent.is_entered && agent.goes_on(moment, has_ended) {
                agent.is_entered = true;
                let agent = *agent;
                self.enter(&agent);
            }
            return;
        }
        let first = moment.commands.iter().find(|command| command.action != Action::Unblock);
        let Some((ReasonCode::Detector(detector), arm)) = first.and_then(|command| Some((command.reason, command.arm?))) else {
            return;
        };
        if self.agents.len() >= AGENTS_MAX
            && let Some((_, gone)) = self.agents.pop_first()
            && !gone.is_entered
        {
            self.enter(&gone);
        }
        let begun = WatchedAgent { detector, arm, calls: 0, cost_micro_usd: 0, calls_outside: 0, is_entered: false };
        self.agents.insert(moment.hash, begun);
    }

    fn enter(&mut self, agent: &WatchedAgent) {
        let outcomes = self.arms.entry((agent.detector, agent.arm)).or_default();
        outcomes.calls.note(agent.calls as f64);
        outcomes.cost_usd.note(agent.cost_micro_usd as f64 / 1e6);
        outcomes.recovered.note(f64::from(u8::from(agent.calls_outside > 0)));
    }

    /// Adds the trial of another part of the input. No agent is in two parts.
    pub(super) fn add(&mut self, other: Self) {
        self.agents.extend(other.agents);
        for (key, outcomes) in other.arms {
            self.arms.entry(key).or_default().add(outcomes);
        }
    }

    /// A row for each detector that spoke in a trial.
    pub fn rows(mut self) -> Vec<TrialRow> {
        for agent in std::mem::take(&mut self.agents).into_values().filter(|agent| !agent.is_entered) {
            self.enter(&agent);
        }
        let of = |detector, arm| self.arms.get(&(detector, arm)).copied().unwrap_or_default();
        let arms = Detector::ALL.map(|detector| (detector, of(detector, Arm::Treatment), of(detector, Arm::Control)));
        let has_spoken =
            |(_, treated, control): &(Detector, ArmOutcomes, ArmOutcomes)| treated.calls.number + control.calls.number > 0;
        arms.into_iter()
            .filter(has_spoken)
            .map(|(detector, treated, control)| TrialRow::of(detector, &treated, &control))
            .collect()
    }
}

impl WatchedAgent {
    /// Enters an event after the first command; whether nothing more is to be seen of the loop.
    fn goes_on(&mut self, moment: &Moment<'_>, has_ended: bool) -> bool {
        let step = match moment.kind {
            MomentKind::Call(sequence) | MomentKind::Result(sequence) => moment.session.history.get(sequence),
            MomentKind::Text(_) | MomentKind::Other => None,
        };
        let is_refused = step.is_some_and(|step| step.flags.contains(Flags::REFUSED));
        if moment.findings.iter().any(is_live) {
            self.calls_outside = 0;
        } else if matches!(moment.kind, MomentKind::Call(_)) && !is_refused {
            self.calls_outside += 1;
        }
        // A call that was refused has cost nothing.
        if !is_refused {
            self.calls = self.calls.saturating_add(moment.spent.calls);
            self.cost_micro_usd = self.cost_micro_usd.saturating_add(moment.spent.cost_micro_usd);
        }
        has_ended || self.calls_outside >= LEFT_CALLS
    }
}

impl ArmOutcomes {
    fn add(&mut self, other: Self) {
        self.calls.add(other.calls);
        self.cost_usd.add(other.cost_usd);
        self.recovered.add(other.recovered);
    }
}

impl TrialRow {
    fn of(detector: Detector, treated: &ArmOutcomes, control: &ArmOutcomes) -> Self {
        let calls = Difference::of(&treated.calls, &control.calls);
        let usd = Difference::of(&treated.cost_usd, &control.cost_usd);
        // Where no event has a cost, there is nothing to compare.
        let usd = usd.filter(|_| [treated, control].iter().any(|arm| arm.cost_usd.mean().is_some_and(|mean| mean > 0.0)));
        let recovered = Difference::of(&treated.recovered, &control.recovered);
        let has = |found: Option<Difference>, is_so: fn(Difference) -> bool| found.is_some_and(is_so);
        let (more, fewer) = (|found: Difference| found.low > 0.0, |found: Difference| found.high < 0.0);
        let advised = if has(recovered, fewer) || has(calls, more) {
            Advised::Shadow
        } else if has(recovered, more) || has(calls, fewer) {
            Advised::Keep
        } else {
            Advised::Wait
        };
        Self {
            detector: detector.as_str(),
            treated: treated.calls.number,
            control: control.calls.number,
            calls: rounded(treated.calls.mean()),
            calls_control: rounded(control.calls.mean()),
            calls_low: rounded(calls.map(|found| found.low)),
            calls_high: rounded(calls.map(|found| found.high)),
            usd_low: rounded(usd.map(|found| found.low)),
            usd_high: rounded(usd.map(|found| found.high)),
            recovered: rounded(treated.recovered.mean()),
            recovered_control: rounded(control.recovered.mean()),
            recovered_low: rounded(recovered.map(|found| found.low)),
            recovered_high: rounded(recovered.map(|found| found.high)),
            advised,
        }
    }
}

/// Two decimals: what lies behind them is noise.
fn rounded(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 100.0).round() / 100.0)
}
