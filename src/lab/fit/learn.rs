//! `learn`: weights moved a little by what people answered, and judged on sessions that they were not moved by.
//!
//! Nothing is fitted anew: a penalty pulls every weight to what it is now, so that few answers change little, and no weight moves further
//! than a step. An answer exists only about what was published. So a policy that is learned never publishes to more agents than the present
//! one: whether those would be loops, nobody has looked at.

use std::collections::BTreeSet;

use loopwarden_core::detect::Weights;
use loopwarden_core::{identity::hash_text, policy::Policy};
use serde::Serialize;

use super::actors::{Actor, weighed};
use super::curve::{published_at, scored};
use super::logistic::{self, Centre, Penalty};
use super::steps::{Known, LOOP_WEIGHT, SessionSteps, Steps};
use super::votes::Answers;
use super::{Fit, Learning, known_of, patterns, too_few};
use crate::report::labels::{Ending, Label};
use crate::report::quality::{Quality, rounded};

/// The present weights count as much as so many labelled loops. Decision 57 has what was measured.
const PRIOR_LOOPS: f64 = 16.0;
/// No weight moves further in one learning. Hundredths.
const STEP_MAX: i32 = 50;
/// Neither do the bounds. Hundredths.
const BOUND_STEP_MAX: i32 = 100;
/// Distance of the bounds that are tried. Hundredths.
const BOUND_STEP: usize = 10;
/// Parts of the sessions: each is judged by weights that were fitted on the others.
const PARTS: u64 = 20;
/// Actors whose answers are judged by weights fitted without them: those with most sessions.
const ACTORS_MAX: usize = 32;
/// Of the loops that are published so many may be lost. Percent.
const LOST_PERCENT_MAX: u64 = 1;

/// Sessions that were judged by weights not fitted on them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct HeldOut {
    /// `session`: in parts, by a hash of its name. `actor`: those that one actor answered.
    by: &'static str,
    /// `loops`, which are to be published, or `false_alarms`, which are not.
    measure: &'static str,
    /// Number of them among the held-out sessions.
    of: u64,
    /// Published by the present policy.
    before: u64,
    /// Published by the one that was learned.
    after: u64,
    /// The share that is published after, with 95 % of confidence.
    after_low: Option<f64>,
    after_high: Option<f64>,
}

/// A proposed policy with what it was judged by.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The weights and bounds, with what they were fitted on.
    pub fit: Fit,
    pub answers: Answers,
    pub actors: Vec<Actor>,
    /// Labelled loops, and false alarms.
    pub labels: (u64, u64),
    pub held_out: Vec<HeldOut>,
    /// Agents of the input that the score publishes to, before and after.
    pub agents: (u64, u64),
    /// Too little is answered to judge anything.
    pub is_too_little: bool,
    /// Why it is not better than the present policy; none: it is.
    pub why_not: Vec<String>,
}

/// The present policy and another one, on the same sessions.
#[derive(Debug, Clone, Copy, Default)]
struct Compared {
    before: Quality,
    after: Quality,
}

/// On which terms answers count, and how far they reach.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// A label needs so many actors who agree.
    pub quorum: usize,
    /// Of the agents that nobody calls a false alarm so many may hear nothing any more. Percent.
    pub spared_percent: u64,
}

/// Learns from answers and outcomes. Actors whose answers do not count are left out first.
#[must_use]
pub fn learn(policy: &Policy, steps: &Steps, mut answers: Answers, terms: Terms, endings: &[Ending]) -> Learned {
    let actors = weighed(&answers.loops);
    let left_out = actors.iter().filter(|actor| actor.left_out.is_some()).map(|actor| actor.actor.clone()).collect();
    answers.without(&left_out);
    let of =
        |answers: &Answers| Learning { policy, known: known_of(steps, &once_per_session(answers.labels(terms.quorum)), endings) };
    let learning = of(&answers);
    let weights = learning.moved(terms, |_| true);
    let mut by_session = Compared::default();
    for part in 0..PARTS {
        let without = learning.moved(terms, |session| part_of(session) != part);
        by_session.add(learning.compared(&without, |session| part_of(session) == part));
    }
    let by_actor = learning.by_actor(&answers, &actors, |answers| of(answers).moved(terms, |_| true));
    let labels = once_per_session(answers.labels(terms.quorum));
    let loops = labels.iter().filter(|label| label.is_loop).count() as u64;
    let false_alarms = labels.len() as u64 - loops;
    let mut why_not = too_few(loops, false_alarms, "answered");
    let is_too_little = !why_not.is_empty();
    if weights == policy.score {
        why_not.push("the answers move no weight".to_owned());
    } else if !is_too_little {
        why_not.extend([Some(by_session), by_actor].into_iter().flatten().find_map(Compared::why_not).map(str::to_owned));
    }
    let held_out = by_session.rows("session").into_iter().chain(by_actor.into_iter().flat_map(|compared| compared.rows("actor")));
    let agents = (learning.agents(&policy.score), learning.agents(&weights));
    let bounds = [policy.score.nudge_at, weights.nudge_at];
    Learned {
        fit: learning.fit(weights, &bounds),
        actors,
        labels: (loops, false_alarms),
        held_out: held_out.collect(),
        agents,
        is_too_little,
        why_not,
        answers,
    }
}

/// One loop and one false alarm of a session, the first of each: whoever answers a session twenty times has seen one.
fn once_per_session(labels: Vec<Label>) -> Vec<Label> {
    let mut known = BTreeSet::new();
    labels.into_iter().filter(|label| known.insert((label.tenant.clone(), label.session.clone(), label.is_loop))).collect()
}

/// The part of a session: a pure hash, so that it is the same in every run.
fn part_of(session: &SessionSteps) -> u64 {
    hash_text(&format!("{}\u{1f}{}", session.tenant, session.session)).hash64().0 % PARTS
}

impl Learning<'_> {
    /// The weights of the policy, moved by what is known of these sessions.
    fn moved(&self, terms: Terms, of: impl Fn(&SessionSteps) -> bool) -> Weights {
        let present = &self.policy.score;
        let known: Vec<_> = self.known.iter().filter(|(session, _)| of(session)).cloned().collect();
        let patterns = patterns(&known);
        let total: f64 = patterns.iter().map(|pattern| pattern.of_loops + pattern.of_work).sum();
        if total <= 0.0 {
            return present.clone();
        }
        let penalty = Penalty { sparse: 0.0, smooth: PRIOR_LOOPS * LOOP_WEIGHT / total };
        let (bias, points) = logistic::fit(&patterns, penalty, &Centre::of(present));
        let moved = |before: i32, now: i32| now.clamp(before - STEP_MAX, before + STEP_MAX);
        let mut weights = Weights { bias: moved(present.bias, bias), ..present.clone() };
        for (weight, new) in weights.points.iter_mut().zip(points) {
            *weight = moved(*weight, new);
        }
        self.bounded(&weights, &known, terms.spared_percent.min(100)).unwrap_or_else(|| present.clone())
    }

    /// The weights with the bounds that are worth most, of those by which no more agents hear anything; none where there are none.
    fn bounded(&self, weights: &Weights, known: &[(&SessionSteps, Known)], spared_percent: u64) -> Option<Weights> {
        let present = &self.policy.score;
        let tried = (present.nudge_at - BOUND_STEP_MAX..=present.nudge_at + BOUND_STEP_MAX).step_by(BOUND_STEP);
        let [before, after] = [present, weights].map(|weights| self.highest(weights));
        let reached = |sums: &[i32], bound: i32| sums.iter().filter(|sum| **sum >= bound).count() as u64;
        // Those whose commands were answered to be false alarms may all be spared, and of the others few.
        let spared: BTreeSet<_> =
            known.iter().filter(|(_, known)| known.is_spared()).map(|(session, _)| session.name()).collect();
        let others = |sums: &[i32]| -> Vec<i32> {
            let all = self.known.iter().zip(sums);
            all.filter(|((session, _), _)| !spared.contains(&session.name())).map(|(_, sum)| *sum).collect()
        };
        let (others_before, others_after) = (others(&before), others(&after));
        let least_others = reached(&others_before, present.nudge_at) * (100 - spared_percent);
        let most = reached(&before, present.nudge_at);
        let is_near =
            |bound: &i32| *bound > 0 && reached(&after, *bound) <= most && reached(&others_after, *bound) * 100 >= least_others;
        let bounds: Vec<i32> = tried.filter(is_near).collect();
        let least = *bounds.first()?;
        let nudge_at = published_at(known, weights, self.poll_factor(), &bounds).best(true).unwrap_or(least);
        let block_at = (present.block_at + nudge_at - present.nudge_at).max(nudge_at);
        Some(Weights { nudge_at, block_at, most: weights.most.max(block_at), ..weights.clone() })
    }

    /// The highest sum of each agent.
    fn highest(&self, weights: &Weights) -> Vec<i32> {
        let highest = |session: &SessionSteps| {
            scored(session, weights, self.poll_factor()).into_iter().map(|(_, sum)| sum).max().unwrap_or_default()
        };
        self.known.iter().map(|(session, _)| highest(session)).collect()
    }

    /// Agents whose sum reaches the bound of a nudge.
    fn agents(&self, weights: &Weights) -> u64 {
        self.highest(weights).iter().filter(|sum| **sum >= weights.nudge_at).count() as u64
    }

    /// The present policy and other weights, on these sessions.
    fn compared(&self, weights: &Weights, of: impl Fn(&SessionSteps) -> bool) -> Compared {
        let known: Vec<_> = self.known.iter().filter(|(session, _)| of(session)).cloned().collect();
        let at = |weights: &Weights| published_at(&known, weights, self.poll_factor(), &[weights.nudge_at]).first();
        Compared { before: at(&self.policy.score), after: at(weights) }
    }

    /// The sessions of each actor, judged by weights that were fitted without his answers; none where nobody else has answered.
    fn by_actor(&self, answers: &Answers, actors: &[Actor], fitted: impl Fn(&Answers) -> Weights) -> Option<Compared> {
        let mut counting: Vec<&Actor> = actors.iter().filter(|actor| actor.left_out.is_none()).collect();
        if counting.len() < 2 {
            return None;
        }
        counting.sort_by_key(|actor| std::cmp::Reverse(actor.right + actor.false_alarms));
        let mut all = Compared::default();
        for actor in counting.into_iter().take(ACTORS_MAX) {
            let mut others = answers.clone();
            others.without(&BTreeSet::from([actor.actor.clone()]));
            let without = fitted(&others);
            let mine = answers
                .loops
                .iter()
                .filter(|answered| answered.right.contains(&actor.actor) || answered.false_alarm.contains(&actor.actor));
            let mine: BTreeSet<(&str, &str)> =
                mine.map(|answered| (answered.about.tenant.as_str(), answered.about.session.as_str())).collect();
            all.add(self.compared(&without, |session| mine.contains(&(session.tenant.as_str(), session.session.as_str()))));
        }
        Some(all)
    }
}

impl Compared {
    const fn add(&mut self, other: Self) {
        self.before = self.before.and(other.before);
        self.after = self.after.and(other.after);
    }

    fn rows(self, by: &'static str) -> [HeldOut; 2] {
        let Self { before, after } = self;
        let sides = [("loops", before.loops, after.loops), ("false_alarms", before.false_alarms(), after.false_alarms())];
        sides.map(|(measure, before, after)| {
            let found = after.estimate();
            HeldOut {
                by,
                measure,
                of: before.of,
                before: before.hit,
                after: after.hit,
                after_low: found.map(|found| rounded(found.low)),
                after_high: found.map(|found| rounded(found.high)),
            }
        })
    }

    fn why_not(self) -> Option<&'static str> {
        let lost = self.before.loops.hit.saturating_sub(self.after.loops.hit);
        if self.after.false_alarms().hit >= self.before.false_alarms().hit {
            Some("false alarms are not fewer on what was held out")
        } else if lost * 100 > self.before.loops.of * LOST_PERCENT_MAX {
            Some("more than one loop in a hundred is lost on what was held out")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::quality::Proportion;

    #[test]
    fn better_is_fewer_false_alarms_without_losing_loops() {
        let quality = |loops, alarms| Quality {
            loops: Proportion { of: 100, hit: loops },
            look_alikes: Proportion { of: 10, hit: alarms },
            successes: Proportion::default(),
        };
        let compared = |loops: (u64, u64), alarms: (u64, u64)| Compared {
            before: quality(loops.0, alarms.0),
            after: quality(loops.1, alarms.1),
        };
        assert_eq!(compared((90, 89), (8, 5)).why_not(), None);
        assert!(compared((90, 88), (8, 5)).why_not().unwrap().contains("is lost"));
        assert!(compared((90, 95), (8, 8)).why_not().unwrap().contains("not fewer"));
    }
}
