//! What a controlled trial has shown: for each detector, what agents did after its first command, in each arm.

mod interval;
mod saved;

use loopwarden_core::engine::TrialSums;
use loopwarden_core::policy::{Arm, Detector};
pub use saved::{NotSaved, Saved};
use serde::Serialize;

use crate::report::quality::{Estimate, in_hundredths, two_decimals};
use crate::report::trial::interval::{Samples, difference};

/// All five intervals of a row hold at once, at every look, in all but so many trials.
const MISSES: f64 = 0.05;
const INTERVALS: f64 = 5.0;

/// What is advised by a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advised {
    /// Too little is known to switch anything.
    #[default]
    Wait,
    /// Agents go on more often, or spend fewer calls in the loop: the detector is to stay.
    Keep,
    /// They go on less often, or spend more: the mode of the detector should be `shadow`.
    Shadow,
}

/// The means of two arms, and their difference where there are enough agents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    #[serde(serialize_with = "in_hundredths")]
    mean: f64,
    #[serde(serialize_with = "in_hundredths")]
    against: f64,
    difference: Option<Estimate>,
}

/// The arm that is sent commands against the control arm, of one detector.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TrialRow {
    detector: &'static str,
    /// Word of an [`Arm`].
    arm: &'static str,
    against: &'static str,
    /// Agents with at least one command of the detector whose first loop is over.
    agents: u64,
    agents_against: u64,
    /// Share of them, in both arms, that did not get on between the calls of their loop.
    stuck: Option<f64>,
    /// Calls in the loop after the first command.
    calls: Option<Compared>,
    /// US dollars of these calls, where events have costs.
    usd: Option<Compared>,
    /// Share of the agents that left the loop and made another call.
    went_on: Option<Compared>,
    /// r: by how much more often agents that were stuck go on.
    recovery: Option<Estimate>,
    /// d: by how much less often agents that were getting on go on.
    disruption: Option<Estimate>,
    /// d / (r + d): the least share of stuck agents at which commands do more good than harm.
    p_star: Option<Estimate>,
    advised: Advised,
}

/// The same as a line of text.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TrialLine {
    detector: &'static str,
    arms: String,
    agents: String,
    calls: String,
    usd: Option<String>,
    went_on: String,
    recovery: String,
    disruption: String,
    p_star: String,
    advised: Advised,
}

/// A row for each detector that spoke in a trial.
pub fn rows(sums: &TrialSums) -> Vec<TrialRow> {
    let has_agents = |detector: &Detector| Arm::ALL.iter().any(|arm| sums.get(*detector, *arm).all().agents > 0);
    Detector::ALL.into_iter().filter(has_agents).map(|detector| TrialRow::of(sums, detector)).collect()
}

impl Estimate {
    fn of_difference(one: &Samples, two: &Samples) -> Option<Self> {
        difference(one, two, MISSES / INTERVALS)
    }

    /// The same in the other direction.
    fn turned(self) -> Self {
        Self { value: -self.value, low: -self.high, high: -self.low }
    }

    /// The share of stuck agents at which as many are helped as are broken off.
    fn p_star(recovery: Self, disruption: Self) -> Option<Self> {
        let share = |recovery: f64, disruption: f64| {
            let (recovery, disruption) = (recovery.clamp(0.0, 1.0), disruption.clamp(0.0, 1.0));
            let both = recovery + disruption;
            (both > 0.0).then(|| disruption / both)
        };
        // Without any harm for certain, however small the share: none at all.
        let low = share(recovery.high, disruption.low)?;
        let value = share(recovery.value, disruption.value)?;
        Some(Self { value, low, high: share(recovery.low, disruption.high).unwrap_or(1.0) })
    }

    fn to_text(self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.value, self.low, self.high)
    }
}

impl Compared {
    fn of(one: &Samples, two: &Samples) -> Option<Self> {
        Some(Self { mean: one.mean()?, against: two.mean()?, difference: Estimate::of_difference(one, two) })
    }

    fn to_text(self, digits: usize) -> String {
        let difference =
            self.difference.map_or_else(String::new, |found| format!(", {:.digits$} to {:.digits$}", found.low, found.high));
        format!("{:.digits$} : {:.digits$}{difference}", self.mean, self.against)
    }

    fn is_below(self) -> bool {
        self.difference.is_some_and(|found| found.high < 0.0)
    }

    fn is_above(self) -> bool {
        self.difference.is_some_and(|found| found.low > 0.0)
    }
}

impl TrialRow {
    fn of(sums: &TrialSums, detector: Detector) -> Self {
        let (arm, against) = (Arm::Treatment, Arm::Control);
        let [one, two] = [arm, against].map(|arm| sums.get(detector, arm));
        let (one, two) = (&one, &two);
        let went_on = Compared::of(&Samples::of_share(one.all()), &Samples::of_share(two.all()));
        let calls = Compared::of(&Samples::of_calls(one), &Samples::of_calls(two));
        let usd = Samples::of_dollars(one, two).and_then(|[one, two]| Compared::of(&one, &two));
        let recovery = Estimate::of_difference(&Samples::of_share(one.stuck), &Samples::of_share(two.stuck));
        let disruption =
            Estimate::of_difference(&Samples::of_share(one.getting_on), &Samples::of_share(two.getting_on)).map(Estimate::turned);
        let has = |found: Option<Compared>, is_so: fn(Compared) -> bool| found.is_some_and(is_so);
        let advised = if has(went_on, Compared::is_below) || has(calls, Compared::is_above) {
            Advised::Shadow
        } else if has(went_on, Compared::is_above) || has(calls, Compared::is_below) {
            Advised::Keep
        } else {
            Advised::Wait
        };
        let (stuck, agents) = (one.stuck.agents + two.stuck.agents, one.all().agents + two.all().agents);
        Self {
            detector: detector.as_str(),
            arm: arm.as_str(),
            against: against.as_str(),
            agents: one.all().agents,
            agents_against: two.all().agents,
            stuck: (agents > 0).then(|| two_decimals(stuck as f64 / agents as f64)),
            calls,
            usd,
            went_on,
            recovery,
            disruption,
            p_star: recovery.zip(disruption).and_then(|(recovery, disruption)| Estimate::p_star(recovery, disruption)),
            advised,
        }
    }

    /// The row as a line of text. What is not known yet is a dash.
    pub fn line(&self) -> TrialLine {
        let estimate = |found: Option<Estimate>| found.map_or_else(|| "-".to_owned(), |found| found.to_text(2));
        let compared = |found: Option<Compared>, digits| found.map_or_else(|| "-".to_owned(), |found| found.to_text(digits));
        TrialLine {
            detector: self.detector,
            arms: format!("{} : {}", self.arm, self.against),
            agents: format!("{} : {}", self.agents, self.agents_against),
            calls: compared(self.calls, 1),
            usd: self.usd.map(|found| found.to_text(2)),
            went_on: compared(self.went_on, 2),
            recovery: estimate(self.recovery),
            disruption: estimate(self.disruption),
            p_star: estimate(self.p_star),
            advised: self.advised,
        }
    }
}

#[cfg(test)]
mod tests;
