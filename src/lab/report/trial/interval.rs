//! An interval for the difference of two means that holds at every look at once, however often one looks.
//!
//! Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, *Time-uniform central limit theory and asymptotic confidence sequences* (2021),
//! equation 7, with the variance of a difference of means.

use loopwarden_core::engine::{ArmSums, WentOn};

use crate::report::quality::Estimate;

/// Values of one arm: their number, sum and sum of squares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Samples {
    number: u64,
    sum: f64,
    squares: f64,
    /// What one call, or one agent, makes of it.
    unit: f64,
}

/// Both arms together, at which the interval is narrowest for what is known.
const TUNED_FOR: f64 = 200.0;
/// Millionths of a dollar in one.
const MICRO: f64 = 1e6;
/// The limit theorem behind the interval does not reach fewer values of an arm.
pub(super) const NUMBER_MIN: u64 = 50;

impl Samples {
    /// Of the calls that each agent made.
    pub(super) const fn of_calls(arm: &ArmSums) -> Self {
        Self { number: arm.all().agents, sum: arm.calls.sum as f64, squares: arm.calls.squares as f64, unit: 1.0 }
    }

    /// US dollars of each agent of two arms; none where no event has a cost.
    pub(super) fn of_dollars(one: &ArmSums, two: &ArmSums) -> Option<[Self; 2]> {
        let cost = one.micro_usd.sum as f64 + two.micro_usd.sum as f64;
        let calls = one.calls.sum as f64 + two.calls.sum as f64;
        let of = |arm: &ArmSums| Self {
            number: arm.all().agents,
            sum: arm.micro_usd.sum as f64 / MICRO,
            squares: arm.micro_usd.squares as f64 / (MICRO * MICRO),
            unit: cost / calls.max(1.0) / MICRO,
        };
        (cost > 0.0).then(|| [of(one), of(two)])
    }

    /// Each agent is one or nothing.
    pub(super) const fn of_share(found: WentOn) -> Self {
        Self { number: found.agents, sum: found.went_on as f64, squares: found.went_on as f64, unit: 1.0 }
    }

    /// The mean; none of no values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.number > 0).then(|| self.sum / self.number as f64)
    }

    /// The variance of the mean. Of few values that were nearly all equal so far little is known: that adds the square of two units.
    fn variance_of_mean(&self) -> f64 {
        let number = self.number as f64;
        let mean = self.sum / number;
        let variance = mean.mul_add(-mean, self.squares / number).max(0.0);
        (variance + 4.0 * self.unit * self.unit / number) / number
    }
}

/// The mean of the first less that of the second, with an interval that misses the truth, at any time, in at most the share `misses` of all
/// trials; none where an arm has fewer values than 50.
pub(super) fn difference(one: &Samples, two: &Samples, misses: f64) -> Option<Estimate> {
    if one.number < NUMBER_MIN || two.number < NUMBER_MIN {
        return None;
    }
    let value = one.mean()? - two.mean()?;
    let number = (one.number + two.number) as f64;
    let log = -2.0 * misses.ln();
    let spread = (log + (log + 1.0).ln()) / TUNED_FOR;
    let grown = spread.mul_add(number, 1.0);
    let factor = 2.0 * grown / (number * spread) * (grown.sqrt() / misses).ln();
    let half = (factor * (one.variance_of_mean() + two.variance_of_mean())).sqrt();
    Some(Estimate { value, low: value - half, high: value + half })
}
