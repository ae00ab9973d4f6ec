//! Logistic regression with signs and an L1 penalty, by coordinate descent: one order of coordinates, one thread, and sums in one order, so
//! that the same input gives the same bytes.

use loopwarden_core::detect::{Fact, Facts, Side, Weights, decimal};

/// Rounds over all coordinates, at most.
const ROUNDS_MAX: usize = 2_000;
/// A round that moves no weight further ends the fit.
const SETTLED: f64 = 1e-7;
/// Curvature of the logistic function, at most.
const CURVATURE_MAX: f64 = 0.25;

/// Steps that show the same facts.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) facts: Facts,
    pub(super) steps: usize,
    /// Weight of those in labelled loops.
    pub(super) of_loops: f64,
    /// Weight of those that are work.
    pub(super) of_work: f64,
}

impl Pattern {
    /// No step yet.
    pub(super) const fn of(facts: Facts) -> Self {
        Self { facts, steps: 0, of_loops: 0.0, of_work: 0.0 }
    }
}

/// Penalties, per unit of total weight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Penalty {
    pub(super) sparse: f64,
    pub(super) smooth: f64,
}

/// Where weights are pulled to.
#[derive(Debug, Clone)]
pub(super) struct Centre {
    /// None: the bias is free.
    pub(super) bias: Option<f64>,
    /// In the order of [`Fact::ALL`].
    pub(super) weights: Vec<f64>,
}

impl Centre {
    /// Towards nothing, with a free bias.
    pub(super) fn nothing() -> Self {
        Self { bias: None, weights: vec![0.0; Fact::ALL.len()] }
    }

    /// Towards the weights of a policy, bias and all.
    pub(super) fn of(weights: &Weights) -> Self {
        Self { bias: Some(decimal(weights.bias)), weights: weights.points.iter().copied().map(decimal).collect() }
    }
}

/// Bias and weights in hundredths, the weights in the order of [`Fact::ALL`]. The smooth penalty pulls towards `centre`, where the descent begins.
pub(super) fn fit(patterns: &[Pattern], penalty: Penalty, centre: &Centre) -> (i32, Vec<i32>) {
    let hundredths = |weight: f64| (weight * 100.0).round() as i32;
    let total: f64 = patterns.iter().map(|pattern| pattern.of_loops + pattern.of_work).sum();
    if total <= 0.0 {
        return (hundredths(centre.bias.unwrap_or_default()), centre.weights.iter().copied().map(hundredths).collect());
    }
    let holders: Vec<Vec<usize>> = Fact::ALL
        .into_iter()
        .map(|fact| patterns.iter().enumerate().filter(|(_, pattern)| pattern.facts.has(fact)).map(|(at, _)| at).collect())
        .collect();
    let all: Vec<usize> = (0..patterns.len()).collect();
    let mut sums = vec![0.0; patterns.len()];
    let (mut bias, mut weights) = (centre.bias.unwrap_or_default(), centre.weights.clone());
    shift(&mut sums, &all, bias);
    holders.iter().zip(&weights).for_each(|(held, weight)| shift(&mut sums, held, *weight));
    for _ in 0..ROUNDS_MAX {
        let smooth = if centre.bias.is_some() { penalty.smooth } else { 0.0 };
        let pull = (0.0, smooth * (bias - centre.bias.unwrap_or_default()));
        let step = newton(patterns, &sums, &all, pull, total)
            .map_or(0.0, |(gradient, curvature)| -gradient / (curvature + smooth * total));
        bias += step;
        shift(&mut sums, &all, step);
        let mut moved = step.abs();
        for (((fact, held), weight), centre) in Fact::ALL.into_iter().zip(&holders).zip(&mut weights).zip(&centre.weights) {
            let sign = if fact.side() == Side::Loop { 1.0 } else { -1.0 };
            let pull = (penalty.sparse * sign, penalty.smooth * (*weight - centre));
            let Some((gradient, curvature)) = newton(patterns, &sums, held, pull, total) else { continue };
            let free = *weight - gradient / (curvature + penalty.smooth * total);
            // Beyond nothing on the wrong side there is nothing.
            let new = if free * sign > 0.0 { free } else { 0.0 };
            let step = new - *weight;
            *weight = new;
            shift(&mut sums, held, step);
            moved = moved.max(step.abs());
        }
        if moved < SETTLED {
            break;
        }
    }
    (hundredths(bias), weights.into_iter().map(hundredths).collect())
}

/// Gradient and an upper bound of the curvature along one coordinate; none where no step has it.
fn newton(patterns: &[Pattern], sums: &[f64], held: &[usize], (sparse, smooth): (f64, f64), total: f64) -> Option<(f64, f64)> {
    let (mut gradient, mut curvature) = ((sparse + smooth) * total, 0.0);
    for at in held {
        let (pattern, sum) = (patterns.get(*at)?, sums.get(*at)?);
        let weight = pattern.of_loops + pattern.of_work;
        let probability = 1.0 / (1.0 + (-sum).exp());
        gradient += weight * probability - pattern.of_loops;
        curvature += weight * CURVATURE_MAX;
    }
    (curvature > 0.0).then_some((gradient, curvature))
}

fn shift(sums: &mut [f64], held: &[usize], step: f64) {
    if step != 0.0 {
        for at in held {
            if let Some(sum) = sums.get_mut(*at) {
                *sum += step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(facts: &[Fact], of_loops: f64, of_work: f64) -> Pattern {
        let mut pattern = Pattern::of(Facts::default());
        for fact in facts {
            pattern.facts.note(*fact, true);
        }
        Pattern { steps: 1, of_loops, of_work, ..pattern }
    }

    #[test]
    fn a_synthetic_fleet_gives_its_weights_back() {
        // Known weights, and every combination of three facts as often as they say.
        let known = [(Fact::Equal1, 2.0), (Fact::Fails1, 1.0), (Fact::NewCall, -1.5)];
        let mut fleet = Vec::new();
        for bits in 0..8_u32 {
            let held: Vec<(Fact, f64)> =
                known.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, fact)| *fact).collect();
            let odds: f64 = held.iter().map(|(_, weight)| weight).sum::<f64>() - 1.0;
            let probability = 1.0 / (1.0 + (-odds).exp());
            let facts: Vec<Fact> = held.iter().map(|(fact, _)| *fact).collect();
            fleet.push(pattern(&facts, 1_000.0 * probability, 1_000.0 * (1.0 - probability)));
        }
        let (bias, weights) = fit(&fleet, Penalty { sparse: 0.0, smooth: 0.0 }, &Centre::nothing());
        let of = |fact: Fact| weights[Fact::ALL.iter().position(|other| *other == fact).unwrap()];
        assert_eq!((bias, of(Fact::Equal1), of(Fact::Fails1), of(Fact::NewCall)), (-100, 200, 100, -150));
        assert_eq!(weights.iter().filter(|weight| **weight != 0).count(), 3);
    }

    #[test]
    fn no_fact_weighs_on_the_other_side_and_a_rare_one_weighs_nothing() {
        let wrong = [pattern(&[Fact::Equal1], 1.0, 9.0), pattern(&[Fact::NewCall], 9.0, 1.0), pattern(&[], 5.0, 5.0)];
        let (_, weights) = fit(&wrong, Penalty { sparse: 0.001, smooth: 0.000_1 }, &Centre::nothing());
        assert!(weights.iter().all(|weight| *weight == 0), "{weights:?}");
        let rare = [pattern(&[Fact::Round], 0.01, 0.0), pattern(&[], 50.0, 50.0)];
        let fitted = fit(&rare, Penalty { sparse: 0.001, smooth: 0.000_1 }, &Centre::nothing());
        assert!(fitted.1.iter().all(|weight| *weight == 0));
        assert_eq!(fit(&[], Penalty { sparse: 0.0, smooth: 0.0 }, &Centre::nothing()).0, 0);
    }

    #[test]
    fn a_strong_pull_keeps_the_weights_of_before_and_a_weak_one_lets_them_go() {
        let mut before = Weights { bias: -100, ..Weights::default() };
        before.points[0] = 150;
        let work = [pattern(&[Fact::Equal1], 0.0, 4.0)];
        let pulled = |smooth| fit(&work, Penalty { sparse: 0.0, smooth }, &Centre::of(&before));
        let (kept, free) = (pulled(1_000.0), pulled(0.01));
        assert_eq!((kept.0, kept.1[0]), (-100, 150));
        assert!(free.1[0] < 100 && free.0 < -100, "{free:?}");
        assert_eq!(fit(&[], Penalty { sparse: 0.0, smooth: 1.0 }, &Centre::of(&before)), (-100, kept.1));
    }
}
