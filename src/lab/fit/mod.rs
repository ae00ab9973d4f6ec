//! `fit` and `learn`: the weights of evidence from labelled sessions, and the curve of loops against false alarms by which the bounds are
//! chosen. `fit` begins anew; `learn` is pulled to the weights of a policy.
//!
//! The fit is a logistic regression on the facts of steps: convex, so that it has one answer; sign-constrained, so that what is evidence of a
//! loop never counts against one; sparse by an L1 penalty. Each labelled stretch and each successful session weighs the same, however long
//! it is. The sum of a session is then scored as production scores it, and what the bounds would tell is counted.

mod actors;
mod answered;
mod curve;
mod learn;
mod logistic;
mod places;
mod steps;
mod votes;

use std::{collections::BTreeSet, fmt::Write as _};

use loopwarden_core::detect::{Fact, Side, Weights, decimal};
use loopwarden_core::policy::Policy;
use serde::Serialize;

use crate::report::Table;
use crate::report::labels::{Ending, Label};
pub use actors::Actor;
pub use answered::{Answered, GivenAnswer, PublishedLoop};
pub use curve::Curve;
use curve::published_at;
pub use learn::{HeldOut, Learned, Terms, learn};
use logistic::{Centre, Pattern, Penalty};
use steps::{Known, SessionSteps};
pub use steps::{Measuring, Steps};
pub use votes::{AnsweredLoop, Answers, Ruling};

/// Fewer loops, or fewer false alarms, are too few to learn from.
const LOOPS_MIN: u64 = 5;
const FALSE_ALARMS_MIN: u64 = 3;
/// L1 penalty on each weight, per unit of total weight.
const SPARSENESS: f64 = 0.001;
/// L2 penalty: it makes the answer unique where facts always come together.
const SMOOTHNESS: f64 = 0.000_1;
/// Sums at which the curve is printed.
const CURVE: std::ops::RangeInclusive<i32> = 4..=28;
/// Their distance, in hundredths.
const CURVE_STEP: i32 = 25;
/// A block waits for this multiple of the sum of a nudge. Percent.
const BLOCK_PERCENT: i32 = 220;

#[derive(Debug, Clone)]
pub struct Fit {
    /// The policy's score with the fitted weights and the proposed bounds.
    pub weights: Weights,
    /// Steps and sessions that were fitted on.
    pub fitted: (usize, usize),
    /// Facts that no step of them showed: their weights are those of the policy before.
    pub unseen: Vec<Fact>,
    /// Loops told and false alarms by sum.
    pub curve: Curve,
}

/// A fact in the table of a fit.
#[derive(Debug, Clone, Serialize, Default)]
struct Row {
    fact: &'static str,
    side: &'static str,
    points: f64,
    before: f64,
    sentence: &'static str,
}

/// Fits the weights of a policy anew on measured steps.
///
/// # Errors
/// Why too little is known to fit anything.
pub fn fit(policy: &Policy, steps: &Steps, labels: &[Label], endings: &[Ending]) -> Result<Fit, Vec<String>> {
    let learning = Learning { policy, known: known_of(steps, labels, endings) };
    let quality = learning.curve(&policy.score, &[policy.score.nudge_at]).first();
    let few = too_few(quality.loops.of, quality.false_alarms().of, "labelled");
    if !few.is_empty() {
        return Err(few);
    }
    let patterns = patterns(&learning.known);
    let seen = seen(&patterns);
    let (bias, fitted) = logistic::fit(&patterns, Penalty { sparse: SPARSENESS, smooth: SMOOTHNESS }, &Centre::nothing());
    let mut weights = Weights { bias, ..policy.score.clone() };
    for ((fact, points), new) in Fact::ALL.into_iter().zip(&mut weights.points).zip(fitted) {
        if seen.contains(&fact) {
            *points = new;
        }
    }
    let bounds: Vec<i32> = CURVE.map(|at| at * CURVE_STEP).collect();
    if let Some(best) = learning.curve(&weights, &bounds).best(false) {
        weights.nudge_at = best;
        weights.block_at = best * BLOCK_PERCENT / 100;
    }
    weights.most = weights.most.max(weights.block_at);
    Ok(learning.fit(weights, &bounds))
}

/// Why so many are too few; nothing where they are enough. `how` they are known: labelled, answered.
fn too_few(loops: u64, false_alarms: u64, how: &str) -> Vec<String> {
    let few = [(loops, LOOPS_MIN, "loops"), (false_alarms, FALSE_ALARMS_MIN, "false alarms")].into_iter();
    few.filter(|(many, least, _)| many < least).map(|(_, least, what)| format!("fewer than {least} {what} are {how}")).collect()
}

/// What weights are fitted on.
struct Learning<'a> {
    policy: &'a Policy,
    known: Vec<(&'a SessionSteps, Known)>,
}

impl Learning<'_> {
    fn poll_factor(&self) -> u32 {
        self.policy.tools.get("").scaled(1, true)
    }

    /// How good the policy is with these weights, for each bound of a nudge.
    fn curve(&self, weights: &Weights, bounds: &[i32]) -> Curve {
        published_at(&self.known, weights, self.poll_factor(), bounds)
    }

    /// The weights with what they were fitted on, and what these bounds make of them.
    fn fit(&self, weights: Weights, bounds: &[i32]) -> Fit {
        let patterns = patterns(&self.known);
        let seen = seen(&patterns);
        Fit {
            curve: self.curve(&weights, bounds),
            weights,
            fitted: (
                patterns.iter().map(|pattern| pattern.steps).sum(),
                self.known.iter().filter(|(_, known)| known.is_known()).count(),
            ),
            unseen: Fact::ALL.into_iter().filter(|fact| !seen.contains(fact)).collect(),
        }
    }
}

/// Facts that a step shows.
fn seen(patterns: &[Pattern]) -> BTreeSet<Fact> {
    patterns.iter().flat_map(|pattern| pattern.facts.iter()).collect()
}

/// The agents of an input with what is known of them.
fn known_of<'a>(steps: &'a Steps, labels: &[Label], endings: &[Ending]) -> Vec<(&'a SessionSteps, Known)> {
    let mut of: std::collections::BTreeMap<(&str, &str), (Vec<&Label>, bool)> = std::collections::BTreeMap::new();
    for label in labels {
        of.entry((&label.tenant, &label.session)).or_default().0.push(label);
    }
    for ending in endings {
        of.entry((&ending.tenant, &ending.session)).or_default().1 |= ending.success == Some(true);
    }
    let known = |session: &SessionSteps| {
        of.get(&(session.tenant.as_str(), session.session.as_str()))
            .map_or_else(Known::default, |(labels, has_succeeded)| Known::of(session, labels, *has_succeeded))
    };
    steps.sessions().map(|session| (session, known(session))).collect()
}

/// Steps of one set of facts, with the weight of those in loops and of those outside.
fn patterns(known: &[(&SessionSteps, Known)]) -> Vec<Pattern> {
    let mut patterns = std::collections::BTreeMap::new();
    for (session, known) in known {
        let stretches = known.stretches(session);
        for (step, (is_loop, weight)) in session.steps.iter().zip(stretches).filter_map(|(step, known)| Some((step, known?))) {
            // A step of which nothing is known weighs nothing, and shows nothing about weights.
            if step.facts.0 != 0 {
                let pattern: &mut Pattern = patterns.entry(step.facts.0).or_insert_with(|| Pattern::of(step.facts));
                pattern.steps += 1;
                *(if is_loop { &mut pattern.of_loops } else { &mut pattern.of_work }) += weight;
            }
        }
    }
    patterns.into_values().collect()
}

impl Fit {
    /// The weights, one row for each fact that weighs anything now or did before.
    #[must_use]
    pub fn table(&self, before: &Weights) -> Table {
        Table::of(self.rows(before).filter(|row| row.points != 0.0 || row.before != 0.0))
    }

    /// The same of facts that weigh something else than before.
    #[must_use]
    pub fn moved(&self, before: &Weights) -> Table {
        let moved = Fact::ALL.map(|fact| self.weights.of(fact) != before.of(fact));
        Table::of(self.rows(before).zip(moved).filter_map(|(row, is_moved)| is_moved.then_some(row)))
    }

    fn rows(&self, before: &Weights) -> impl Iterator<Item = Row> {
        Fact::ALL.into_iter().map(|fact| Row {
            fact: fact.as_str(),
            side: if fact.side() == Side::Loop { "loop" } else { "work" },
            points: decimal(self.weights.of(fact)),
            before: decimal(before.of(fact)),
            sentence: fact.sentence(),
        })
    }

    /// A policy file that begins from `base` and has the fitted weights; `name` and `fit` say what it is.
    #[must_use]
    pub fn policy_file(&self, name: &str, base: &str, fit: &str) -> String {
        let written = |points: i32| format!("{:.2}", decimal(points));
        let weights = &self.weights;
        let mut file = format!(
            "profile = {name:?}\nbase = {base:?}\n\n[score]\nfit = {fit:?}\nnudge_at = {}\nblock_at = {}\nmost = {}\n\n[score.weights]\nbias = {}\n",
            written(weights.nudge_at),
            written(weights.block_at),
            written(weights.most),
            written(weights.bias)
        );
        for fact in Fact::ALL {
            // A text in memory takes everything.
            let _ = writeln!(file, "{} = {}", fact.as_str(), written(weights.of(fact)));
        }
        file
    }
}
