//! An interval for the difference of two means that holds at every look at once, however often one looks.
//!
//! Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, *Time-uniform central limit theory and asymptotic confidence sequences* (2021),
//! equation 7, with the variance of a difference of means.

/// Values of one arm: their number, sum and sum of squares.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Samples {
    pub(super) number: u64,
    sum: f64,
    squares: f64,
}

/// A difference of two means, with the interval that holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Difference {
    pub(super) low: f64,
    pub(super) high: f64,
}

/// The interval misses the truth, at any time, in at most so many of all trials.
const MISSES: f64 = 0.05;
/// Both arms together, at which the interval is narrowest for what is known.
const TUNED_FOR: f64 = 200.0;
/// The limit theorem behind the interval does not reach fewer values of an arm.
const NUMBER_MIN: u64 = 50;

impl Samples {
    /// Enters the value of one agent.
    pub(super) fn note(&mut self, value: f64) {
        self.number += 1;
        self.sum += value;
        self.squares = value.mul_add(value, self.squares);
    }

    /// Adds what another part has entered.
    pub(super) fn add(&mut self, other: Self) {
        self.number += other.number;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    /// The mean; none of no values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.number > 0).then(|| self.sum / self.number as f64)
    }

    /// The variance of the mean. Values that were all equal so far are not known to be equal for ever: that adds one unit.
    fn variance_of_mean(&self) -> f64 {
        let number = self.number as f64;
        let mean = self.sum / number;
        let variance = mean.mul_add(-mean, self.squares / number).max(0.0);
        (variance + 1.0 / number) / number
    }
}

impl Difference {
    /// The mean of the first less that of the second; none where an arm has fewer values than 50.
    pub(super) fn of(one: &Samples, two: &Samples) -> Option<Self> {
        if one.number < NUMBER_MIN || two.number < NUMBER_MIN {
            return None;
        }
        let difference = one.mean()? - two.mean()?;
        let number = (one.number + two.number) as f64;
        let log = -2.0 * MISSES.ln();
        let spread = (log + (log + 1.0).ln()) / TUNED_FOR;
        let grown = spread.mul_add(number, 1.0);
        let factor = 2.0 * grown / (number * spread) * (grown.sqrt() / MISSES).ln();
        let half = (factor * (one.variance_of_mean() + two.variance_of_mean())).sqrt();
        Some(Self { low: difference - half, high: difference + half })
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::identity::hash_text;

    use super::*;

    /// A number from 0 to 1 that depends on its name alone.
    fn drawn(trial: u32, at: u32, what: &str) -> f64 {
        (hash_text(&format!("{trial} {at} {what}")).hash64().0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Trials in which the interval missed the truth at any look, of so many, looked at after every session.
    fn missed(trials: u32, share: f64, mut draw: impl FnMut(u32, u32, bool) -> f64, truth: f64) -> u32 {
        let mut missed = 0;
        for trial in 0..trials {
            let (mut treated, mut control) = (Samples::default(), Samples::default());
            let mut is_missed = false;
            for at in 0..1_000 {
                let is_control = drawn(trial, at, "arm") < share;
                let value = draw(trial, at, is_control);
                if is_control {
                    control.note(value);
                } else {
                    treated.note(value);
                }
                is_missed |= Difference::of(&treated, &control).is_some_and(|found| truth < found.low || truth > found.high);
            }
            missed += u32::from(is_missed);
        }
        missed
    }

    #[test]
    fn agents_of_known_recovery_are_held_by_the_interval_in_95_of_100_trials() {
        let recovers =
            |trial, at, is_control| f64::from(u8::from(drawn(trial, at, "left") < if is_control { 0.3 } else { 0.55 }));
        let missed = missed(200, 0.2, recovers, 0.25);
        assert!(missed <= 10, "{missed} of 200");
    }

    #[test]
    fn two_equal_arms_differ_in_at_most_5_of_100_trials() {
        // Lengths of loops, most of them short: 1 to about 60 calls.
        let calls = |trial, at, _| (-10.0 * drawn(trial, at, "calls").max(1e-3).ln()).ceil();
        let missed = missed(200, 0.1, calls, 0.0);
        assert!(missed <= 10, "{missed} of 200");
    }

    #[test]
    fn arms_that_were_all_alike_so_far_are_not_sure() {
        let (mut all, mut none) = (Samples::default(), Samples::default());
        for _ in 0..NUMBER_MIN {
            all.note(1.0);
            none.note(0.0);
        }
        let found = Difference::of(&all, &none).unwrap();
        assert!(found.low < 1.0 && found.high > 1.0 && found.low > 0.0, "{found:?}");
        assert_eq!(Difference::of(&all, &Samples::default()), None);
    }
}
