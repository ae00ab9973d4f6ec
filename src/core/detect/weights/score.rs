//! One sequential test for all loops that show in contents: the sum of weights of evidence, floored at nothing (CUSUM, Page 1954; the bounds
//! are those of Wald's sequential test). Weights are data of the policy.
//!
//! Points are hundredths, whole numbers: a sum is the same on every machine.

use crate::detect::finding::{Finding, evidence_identity};
use crate::detect::steps::facts::{Fact, Facts, Side};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::weights::measure::{Measured, Waiting};
use crate::detect::{detector::Detector, rule::CountSettings, steps::history::History};
use crate::setting::{BlockScope, Kind, Mode, Section, Table, kinds, settings};

/// Weights are written with at most so many decimals.
const HUNDRED: f64 = 100.0;
/// No weight, and no bound, is larger.
const WEIGHT_MAX: f64 = 100.0;

/// `[score]`: what facts weigh, and from which sum on there is a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// A nudge at this sum. Hundredths, as all of these.
    pub nudge_at: i32,
    /// A block at this sum, after a nudge.
    pub block_at: i32,
    /// The sum never exceeds this: what is over is soon forgotten.
    pub most: i32,
    /// No step weighs less, or more.
    pub step: (i32, i32),
    /// Share of the points against a loop that a call of another tool than the loop's has. Percent.
    pub others_percent: i32,
    /// Points that every step has, whatever it shows.
    pub bias: i32,
    /// Points of each fact, in the order of [`Fact::ALL`].
    pub points: [i32; Fact::ALL.len()],
}

impl Default for Weights {
    fn default() -> Self {
        Self { nudge_at: 0, block_at: 0, most: 0, step: (0, 0), others_percent: 0, bias: 0, points: [0; Fact::ALL.len()] }
    }
}

settings! {
    /// `[score]` beside its weights.
    struct ScoreTable {
        nudge_at: i32, Points(0.0, WEIGHT_MAX);
        block_at: i32, Points(0.0, WEIGHT_MAX);
        most: i32, Points(0.0, WEIGHT_MAX);
        step_min: i32, Points(-WEIGHT_MAX, 0.0);
        step_max: i32, Points(0.0, WEIGHT_MAX);
        others_share: i32, Points(0.0, 1.0);
    }
}

kinds! {
    /// A number with at most two decimals from one to another, as hundredths.
    Points(f64, f64) -> i32, |bounds| format!("{} to {}", bounds.0, bounds.1), |bounds, key| {
        let (value, path) = (key.float(), &key.path);
        let is_within = (bounds.0..=bounds.1).contains(&value);
        key.check.rule(path, is_within, || format!("{path} is {value}, but must be {}", bounds.range()));
        // A cast from floating point saturates.
        (value.clamp(bounds.0, bounds.1) * HUNDRED).round() as i32
    };
}

impl Weights {
    pub(crate) const SECTION: Section = Section::of_file("score", ScoreTable::SETTINGS);

    pub(crate) fn read(table: &mut Table<'_>) -> Self {
        let ScoreTable { nudge_at, block_at, most, step_min, step_max, others_share } = ScoreTable::read(table);
        let path = table.path("block_at");
        table.check.rule(&path, block_at >= nudge_at, || {
            format!("{path} is {}, but must not be below nudge_at ({})", decimal(block_at), decimal(nudge_at))
        });
        let mut weights = table.table("weights");
        let bias = Points(-WEIGHT_MAX, WEIGHT_MAX).read(&mut weights.key("bias"));
        let points = Fact::ALL.map(|fact| {
            let points = match fact.side() {
                Side::Loop => Points(0.0, WEIGHT_MAX),
                Side::Work => Points(-WEIGHT_MAX, 0.0),
            };
            points.read(&mut weights.key(fact.as_str()))
        });
        Self { nudge_at, block_at, most, step: (step_min, step_max), others_percent: others_share, bias, points }
    }

    #[must_use]
    pub fn of(&self, fact: Fact) -> i32 {
        Fact::ALL.iter().position(|other| *other == fact).and_then(|at| self.points.get(at)).copied().unwrap_or_default()
    }

    /// Points of a step that shows these facts, within the bounds of a step; none of a step of which nothing is known.
    #[must_use]
    pub fn sum(&self, facts: Facts) -> i32 {
        if facts == Facts::default() {
            return 0;
        }
        let sum = Fact::ALL.iter().zip(self.points).filter(|(fact, _)| facts.has(**fact)).map(|(_, points)| points).sum::<i32>();
        (self.bias + sum).clamp(self.step.0, self.step.1)
    }
}

impl Weights {
    /// Points of a step in a sum: who waits raises it less or not, and a call of another tool than the loop's lowers it by a share.
    #[must_use]
    pub fn points(&self, facts: Facts, waiting: Waiting, is_other_tool: bool, poll_factor: u32) -> i32 {
        let points = self.sum(facts);
        match (points > 0, waiting) {
            (true, Waiting::Waits) => 0,
            (true, Waiting::Asks) => points / poll_factor.max(1) as i32,
            (false, _) if is_other_tool => points * self.others_percent / 100,
            (true, Waiting::No) | (false, _) => points,
        }
    }
}

/// The score decides, not the count.
const STEPS_MIN: u32 = 1;

impl CountSettings {
    /// Those of a detector that describes what the score has found.
    pub(crate) const fn of_score(detector: Detector, mode: Mode, block_scope: BlockScope) -> Self {
        Self::new(detector, mode, STEPS_MIN).blocking(STEPS_MIN, block_scope)
    }
}

/// The finding of a detector that describes what the score has found: the newest step, and the earlier ones that it counts, the oldest last. A
/// block of it covers what these have in common: the call, or its fingerprint where other arguments vary; else what the detector's settings say.
pub(crate) fn finding(counts: &CountSettings, newest: &Step, earlier: &[&Step]) -> Finding {
    let is_equal = |step: &&Step| step.call == newest.call;
    let share_fingerprint = earlier.iter().all(|step| step.fingerprint == newest.fingerprint);
    // The fingerprint of a simple read of a shell is none that a worker can make.
    let varies = share_fingerprint && !earlier.iter().all(is_equal) && !newest.flags.contains(Flags::SHELL_READ);
    let scope =
        if varies || earlier.is_empty() || earlier.iter().any(is_equal) { BlockScope::Fingerprint } else { counts.block_scope };
    let first = earlier.last().map_or(newest.sequence, |step| step.sequence);
    let finding = Finding::new(counts.detector, counts.mode, evidence_identity(), 1 + earlier.len() as u32, STEPS_MIN);
    Finding { varies, scope: Some(scope), ..finding.spanning(first, newest.sequence) }
}

/// Hundredths as people write them.
#[must_use]
pub fn decimal(hundredths: i32) -> f64 {
    f64::from(hundredths) / HUNDRED
}

/// The sum of one agent, and the loop that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// Sum of the points. Hundredths.
    pub sum: i32,
    /// The step that raised it last.
    pub raised_by: u64,
}

impl Score {
    /// Takes a measured step, the newest that has completed. `poll_factor`: times as many steps that who asks again may make.
    pub fn take(&mut self, weights: &Weights, measured: &Measured, history: &History, step: &Step, poll_factor: u32) {
        // What another tool brings hardly speaks against a loop: who looks something up between two equal failures still fails.
        let is_other = self.sum > 0 && history.get(self.raised_by).is_some_and(|raised| raised.tool != step.tool);
        let points = weights.points(measured.facts, measured.waiting, is_other, poll_factor);
        if points > 0 {
            self.raised_by = step.sequence;
        }
        self.sum = self.sum.saturating_add(points).clamp(0, weights.most);
    }

    /// The probability of a loop by Wald's bounds, with even odds before: `1 / (1 + exp(-sum))`. From products of constants, so that it is the
    /// same on every machine.
    #[must_use]
    pub fn confidence(self) -> f64 {
        // exp(-0.01 · 2^k).
        const FACTORS: [f64; 14] = [
            0.990_049_833_749_168_1,
            0.980_198_673_306_755_3,
            0.960_789_439_152_323_2,
            0.923_116_346_386_635_8,
            0.852_143_788_966_211_3,
            0.726_149_037_073_690_9,
            0.527_292_424_043_048_5,
            0.278_037_300_453_194_1,
            0.077_304_740_443_299_71,
            0.005_976_022_895_005_943,
            3.571_284_964_163_522_8e-5,
            1.275_407_629_526_039_6e-9,
            1.626_664_621_452_444_7e-18,
            2.646_037_790_653_955e-36,
        ];
        let sum = self.sum.max(0) as u32;
        let odds = FACTORS.iter().enumerate().filter(|(bit, _)| sum >> bit & 1 == 1).map(|(_, factor)| factor).product::<f64>();
        1.0 / (1.0 + odds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Weights {
        let mut weights = Weights {
            nudge_at: 250,
            block_at: 600,
            most: 1000,
            step: (-300, 400),
            others_percent: 25,
            bias: -140,
            ..Weights::default()
        };
        for (fact, points) in [(Fact::Equal1, 190), (Fact::Quiet, 90), (Fact::NewCall, -114)] {
            let at = Fact::ALL.iter().position(|other| *other == fact).unwrap();
            weights.points[at] = points;
        }
        weights
    }

    fn facts(of: &[Fact]) -> Facts {
        let mut facts = Facts::default();
        for fact in of {
            facts.note(*fact, true);
        }
        facts
    }

    #[test]
    fn a_step_weighs_the_sum_of_its_facts_and_nothing_where_nothing_is_known() {
        assert_eq!(weights().sum(facts(&[Fact::Equal1, Fact::Quiet])), 140);
        assert_eq!(weights().sum(facts(&[Fact::NewCall])), -254);
        assert_eq!(weights().sum(Facts::default()), 0);
        assert_eq!(weights().of(Fact::Quiet), 90);
    }

    #[test]
    fn the_sum_stays_within_its_bounds_and_who_waits_raises_it_less_or_not() {
        let (history, step) = (History::new(4), Step::default());
        let raised = |waiting| {
            let mut score = Score { sum: 100, ..Score::default() };
            let measured = Measured { facts: facts(&[Fact::Equal1, Fact::Quiet]), waiting, ..Measured::default() };
            score.take(&weights(), &measured, &history, &step, 3);
            score.sum
        };
        assert_eq!([Waiting::No, Waiting::Asks, Waiting::Waits].map(raised), [240, 146, 100]);
        let mut score = Score { sum: 50, ..Score::default() };
        let measured = Measured { facts: facts(&[Fact::NewCall]), ..Measured::default() };
        score.take(&weights(), &measured, &history, &step, 3);
        assert_eq!(score.sum, 0);
    }

    #[test]
    fn confidence_is_the_logistic_function_of_the_sum() {
        for sum in [0, 1, 250, 275, 999, 10_000] {
            let exact = 1.0 / (1.0 + (-decimal(sum)).exp());
            assert!((Score { sum, ..Score::default() }.confidence() - exact).abs() < 1e-12, "{sum}");
        }
    }
}
