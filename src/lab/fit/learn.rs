//! `learn`: weights moved a little by what people answered, and judged on sessions that they were not moved by.
//!
//! Nothing is fitted anew: a penalty pulls every weight to what it is now, so that few answers change little, and no weight moves further
//! than a step. An answer exists only about what was published. So a policy that is learned never publishes to more agents than the present
//! one: whether those would be loops, nobody has looked at.

use std::collections::BTreeSet;

use loopwarden_core::detect::{Fact, Weights};
use loopwarden_core::{identity::hash_text, policy::Policy};
use serde::Serialize;

use super::actors::{Actor, weighed};
use super::curve::{Point, published_at, scored};
use super::logistic::{self, Centre, Penalty};
use super::steps::{Known, SessionSteps, Steps};
use super::votes::Answers;
use super::{Fit, LOOK_ALIKE_WEIGHT, LOOP_WEIGHT, SUCCESSES_PER_ALARM, known_of, patterns};
use crate::report::labels::{Ending, Label};

/// The present weights count as much as so many labelled loops. Decision 55 has what was measured.
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
/// Fewer loops, or fewer false alarms, are too few to judge by.
const LOOPS_MIN: u64 = 5;
const FALSE_ALARMS_MIN: u64 = 3;
/// Of the loops that are published so many may be lost. Percent.
const LOST_PERCENT_MAX: u64 = 1;
/// Of the normal distribution, for intervals of 95 %.
const NORMAL: f64 = 1.96;

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
    /// Why it is not better than the present policy; none: it is.
    pub why_not: Vec<&'static str>,
}

/// Loops and false alarms by the present policy and by another one.
#[derive(Debug, Clone, Copy, Default)]
struct Compared {
    loops: Sides,
    false_alarms: Sides,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sides {
    of: u64,
    before: u64,
    after: u64,
}

/// What weights are learned from.
struct Learning<'a> {
    policy: &'a Policy,
    known: Vec<(&'a SessionSteps, Known)>,
    poll_factor: u32,
    spared_percent: u64,
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
    let of = |answers: &Answers| Learning {
        policy,
        known: known_of(steps, &once_per_session(answers.labels(terms.quorum)), endings),
        poll_factor: policy.tools.get("").scaled(1, true),
        spared_percent: terms.spared_percent.min(100),
    };
    let learning = of(&answers);
    let weights = learning.fitted(|_| true);
    let mut by_session = Compared::default();
    for part in 0..PARTS {
        let without = learning.fitted(|session| part_of(session) != part);
        by_session.add(learning.compared(&without, |session| part_of(session) == part));
    }
    let by_actor = learning.by_actor(&answers, &actors, of);
    let labels = once_per_session(answers.labels(terms.quorum));
    let loops = labels.iter().filter(|label| label.is_loop).count() as u64;
    let false_alarms = labels.len() as u64 - loops;
    let is_moved = weights != policy.score;
    let few = [
        (loops < LOOPS_MIN, "fewer than 5 loops are answered"),
        (false_alarms < FALSE_ALARMS_MIN, "fewer than 3 false alarms are answered"),
    ];
    let mut why_not: Vec<&'static str> = few.into_iter().filter_map(|(is_few, why)| is_few.then_some(why)).collect();
    if !is_moved {
        why_not.push("the answers move no weight");
    } else if why_not.is_empty() {
        let judged = [Some(by_session), by_actor];
        why_not.extend(judged.into_iter().flatten().find_map(Compared::why_not));
    }
    let held_out = by_session.rows("session").into_iter().chain(by_actor.into_iter().flat_map(|compared| compared.rows("actor")));
    let agents = (learning.agents(&policy.score), learning.agents(&weights));
    Learned {
        fit: learning.fit(weights),
        actors,
        labels: (loops, false_alarms),
        held_out: held_out.collect(),
        agents,
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
    /// Weights moved by what is known of these sessions.
    fn fitted(&self, of: impl Fn(&SessionSteps) -> bool) -> Weights {
        let present = &self.policy.score;
        let known: Vec<_> = self.known.iter().filter(|(session, _)| of(session)).cloned().collect();
        let patterns = patterns(&known, LOOP_WEIGHT, LOOK_ALIKE_WEIGHT);
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
        self.bounded(&weights, &known).unwrap_or_else(|| present.clone())
    }

    /// The weights with the bounds that are worth most, of those by which no more agents hear anything; none where there are none.
    fn bounded(&self, weights: &Weights, known: &[(&SessionSteps, Known)]) -> Option<Weights> {
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
        let least_others = reached(&others_before, present.nudge_at) * (100 - self.spared_percent);
        let most = reached(&before, present.nudge_at);
        let is_near =
            |bound: &i32| *bound > 0 && reached(&after, *bound) <= most && reached(&others_after, *bound) * 100 >= least_others;
        let bounds: Vec<i32> = tried.filter(is_near).collect();
        let least = *bounds.first()?;
        let nudge_at = published_at(known, weights, self.poll_factor, &bounds).cautious(SUCCESSES_PER_ALARM).unwrap_or(least);
        let block_at = (present.block_at + nudge_at - present.nudge_at).max(nudge_at);
        Some(Weights { nudge_at, block_at, most: weights.most.max(block_at), ..weights.clone() })
    }

    /// The highest sum of each agent.
    fn highest(&self, weights: &Weights) -> Vec<i32> {
        let highest = |session: &SessionSteps| {
            scored(session, weights, self.poll_factor).into_iter().map(|(_, sum)| sum).max().unwrap_or_default()
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
        let at = |weights: &Weights| published_at(&known, weights, self.poll_factor, &[weights.nudge_at]).first();
        Compared::of(at(&self.policy.score), at(weights))
    }

    /// The sessions of each actor, judged by weights that were fitted without his answers; none where nobody else has answered.
    fn by_actor<'a>(&self, answers: &Answers, actors: &[Actor], of: impl Fn(&Answers) -> Learning<'a>) -> Option<Compared> {
        let mut counting: Vec<&Actor> = actors.iter().filter(|actor| actor.left_out.is_none()).collect();
        if counting.len() < 2 {
            return None;
        }
        counting.sort_by_key(|actor| std::cmp::Reverse(actor.right + actor.false_alarms));
        let mut all = Compared::default();
        for actor in counting.into_iter().take(ACTORS_MAX) {
            let mut others = answers.clone();
            others.without(&BTreeSet::from([actor.actor.clone()]));
            let without = of(&others).fitted(|_| true);
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

    /// The weights with what they were fitted on.
    fn fit(&self, weights: Weights) -> Fit {
        let bounds = [self.policy.score.nudge_at, weights.nudge_at];
        let curve = published_at(&self.known, &weights, self.poll_factor, &bounds);
        let patterns = patterns(&self.known, LOOP_WEIGHT, LOOK_ALIKE_WEIGHT);
        let seen: BTreeSet<Fact> = patterns.iter().flat_map(|pattern| pattern.facts.iter()).collect();
        Fit {
            weights,
            fitted: (
                patterns.iter().map(|pattern| pattern.steps).sum(),
                self.known.iter().filter(|(_, known)| known.is_known()).count(),
            ),
            unseen: Fact::ALL.into_iter().filter(|fact| !seen.contains(fact)).collect(),
            curve,
        }
    }
}

impl Sides {
    const fn add(&mut self, other: Self) {
        self.of += other.of;
        self.before += other.before;
        self.after += other.after;
    }

    /// Bounds of the share after (Wilson 1927), to three decimals.
    fn interval(self) -> Option<[f64; 2]> {
        let number = self.of as f64;
        (self.of > 0).then(|| {
            let share = self.after as f64 / number;
            let square = NORMAL * NORMAL / number;
            let middle = (share + square / 2.0) / (1.0 + square);
            let half = NORMAL / (1.0 + square) * (share * (1.0 - share) / number + square / (4.0 * number)).sqrt();
            [(middle - half).max(0.0), (middle + half).min(1.0)].map(|bound| (bound * 1_000.0).round() / 1_000.0)
        })
    }
}

impl Compared {
    fn of(before: Point, after: Point) -> Self {
        let false_alarms = |point: Point| point.look_alikes_told + point.successes_told;
        Self {
            loops: Sides { of: before.loops, before: before.loops_told, after: after.loops_told },
            false_alarms: Sides {
                of: before.look_alikes + before.successes,
                before: false_alarms(before),
                after: false_alarms(after),
            },
        }
    }

    const fn add(&mut self, other: Self) {
        self.loops.add(other.loops);
        self.false_alarms.add(other.false_alarms);
    }

    fn rows(self, by: &'static str) -> [HeldOut; 2] {
        [("loops", self.loops), ("false_alarms", self.false_alarms)].map(|(measure, sides)| {
            let Sides { of, before, after } = sides;
            let [after_low, after_high] = sides.interval().map_or([None, None], |bounds| bounds.map(Some));
            HeldOut { by, measure, of, before, after, after_low, after_high }
        })
    }

    fn why_not(self) -> Option<&'static str> {
        let lost = self.loops.before.saturating_sub(self.loops.after);
        if self.false_alarms.after >= self.false_alarms.before {
            Some("false alarms are not fewer on what was held out")
        } else if lost * 100 > self.loops.of * LOST_PERCENT_MAX {
            Some("more than one loop in a hundred is lost on what was held out")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_is_fewer_false_alarms_without_losing_loops() {
        let compared = |loops: (u64, u64), alarms: (u64, u64)| Compared {
            loops: Sides { of: 100, before: loops.0, after: loops.1 },
            false_alarms: Sides { of: 10, before: alarms.0, after: alarms.1 },
        };
        assert_eq!(compared((90, 89), (8, 5)).why_not(), None);
        assert!(compared((90, 88), (8, 5)).why_not().unwrap().contains("is lost"));
        assert!(compared((90, 95), (8, 8)).why_not().unwrap().contains("not fewer"));
    }

    #[test]
    fn an_interval_holds_its_share_and_is_wide_where_little_is_known() {
        let interval = |of, after| Sides { of, before: 0, after }.interval();
        assert_eq!(interval(0, 0), None);
        // Wilson's interval of 9 in 10.
        assert_eq!(interval(10, 9), Some([0.596, 0.982]));
        assert!(interval(1_000, 900).is_some_and(|[low, high]| low > 0.87 && high < 0.92));
        assert_eq!(interval(3, 3).map(|[_, high]| high), Some(1.0));
    }
}
