//! The sum of the evidence at one step: which facts held, what each weighs, and what the sum came to.

use loopwarden_core::detect::{Fact, Measured, Score, Waiting, decimal};
use loopwarden_core::policy::Weights;
use serde::Serialize;

/// A step in the sum.
#[derive(Debug, Serialize)]
pub(super) struct SumNote {
    /// What it came to, and from which sums on something is said.
    sum: f64,
    nudge_at: f64,
    block_at: f64,
    /// Points of the step, within the bounds of a step.
    points: f64,
    /// Those of every step.
    bias: f64,
    facts: Vec<FactNote>,
    /// Why the points are more than what entered the sum.
    waiting: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct FactNote {
    fact: &'static str,
    points: f64,
    sentence: &'static str,
}

impl SumNote {
    /// Of a step that an event completed; none under a policy without weights.
    pub(super) fn of(measured: &Measured, score: Score, weights: &Weights) -> Option<Self> {
        let is_weighed = weights.points.iter().any(|points| *points != 0);
        is_weighed.then(|| Self {
            sum: decimal(score.sum),
            nudge_at: decimal(weights.nudge_at),
            block_at: decimal(weights.block_at),
            points: decimal(weights.sum(measured.facts)),
            bias: decimal(weights.bias),
            facts: measured.facts.iter().map(|fact| FactNote::of(fact, weights)).collect(),
            waiting: match measured.waiting {
                Waiting::No => None,
                Waiting::Asks => Some("asks again: a loop is raised by a poll_factor-th"),
                Waiting::Waits => Some("waits: a loop is not raised"),
            },
        })
    }

    /// The same in a line: `3.46 of 2.60: equal_1 +1.98, quiet +0.86, bias -1.36`.
    pub(super) fn to_text(&self) -> String {
        if self.facts.is_empty() {
            return format!("{:.2} of {:.2}: nothing is known of arguments or answer", self.sum, self.nudge_at);
        }
        let facts = self.facts.iter().filter(|fact| fact.points != 0.0).map(|fact| format!("{} {:+.2}", fact.fact, fact.points));
        let parts: Vec<String> = facts.chain([format!("bias {:+.2}", self.bias)]).collect();
        let waiting = self.waiting.map(|waiting| format!("; {waiting}")).unwrap_or_default();
        format!("{:.2} of {:.2}: {}{waiting}", self.sum, self.nudge_at, parts.join(", "))
    }
}

impl FactNote {
    fn of(fact: Fact, weights: &Weights) -> Self {
        Self { fact: fact.as_str(), points: decimal(weights.of(fact)), sentence: fact.sentence() }
    }
}
