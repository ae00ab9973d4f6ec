//! How good a policy is, by what is known of sessions: what it finds of loops, and whom it disturbs that does not loop.

use serde::{Serialize, Serializer};

/// Quantile of the normal distribution, for intervals of 95 %.
const NORMAL: f64 = 1.96;

/// A number and the interval that holds it. Two decimals in JSON: what lies behind them is noise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    #[serde(serialize_with = "in_hundredths")]
    pub value: f64,
    #[serde(serialize_with = "in_hundredths")]
    pub low: f64,
    #[serde(serialize_with = "in_hundredths")]
    pub high: f64,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proportion {
    pub of: u64,
    pub hit: u64,
}

impl Proportion {
    pub(crate) fn note(&mut self, is_hit: bool) {
        self.of += 1;
        self.hit += u64::from(is_hit);
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { of: self.of + other.of, hit: self.hit + other.hit }
    }

    /// From 0 to 1; none of nothing.
    pub fn value(self) -> Option<f64> {
        (self.of > 0).then(|| self.hit as f64 / self.of as f64)
    }

    /// The share with its interval of 95 % (Wilson 1927); none of nothing.
    pub fn estimate(self) -> Option<Estimate> {
        let value = self.value()?;
        let number = self.of as f64;
        let square = NORMAL * NORMAL / number;
        let middle = (value + square / 2.0) / (1.0 + square);
        let half = NORMAL / (1.0 + square) * (value * (1.0 - value) / number + square / (4.0 * number)).sqrt();
        Some(Estimate { value, low: (middle - half).max(0.0), high: (middle + half).min(1.0) })
    }

    /// For people.
    pub(super) fn percent(self) -> String {
        self.value().map_or_else(|| "-".to_owned(), |value| format!("{:.1} %", 100.0 * value))
    }
}

/// What a policy, or a detector of it, finds and disturbs. A hit is a stretch or a session with a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quality {
    pub loops: Proportion,
    /// Labelled stretches that only look like a loop: a hit is a false alarm.
    pub look_alikes: Proportion,
    /// Sessions that ended well: a hit is one with a command outside of its loops.
    pub successes: Proportion,
}

impl Quality {
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            loops: self.loops.and(other.loops),
            look_alikes: self.look_alikes.and(other.look_alikes),
            successes: self.successes.and(other.successes),
        }
    }

    /// Share of the loops that are found.
    pub fn recall(self) -> Option<f64> {
        self.loops.value()
    }

    /// Share of the labelled stretches with a command that are loops.
    pub fn precision(self) -> Option<f64> {
        Proportion { of: self.loops.hit + self.look_alikes.hit, hit: self.loops.hit }.value()
    }

    /// Look-alikes and successful sessions, and those that are disturbed.
    #[must_use]
    pub const fn false_alarms(self) -> Proportion {
        self.look_alikes.and(self.successes)
    }
}

/// A share, to three decimals.
pub(crate) fn rounded(share: f64) -> f64 {
    (1_000.0 * share).round() / 1_000.0
}

pub(super) fn two_decimals(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes what it serialises by reference")]
pub(super) fn in_hundredths<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(two_decimals(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_its_share_and_is_wide_where_little_is_known() {
        let interval = |of, hit| Proportion { of, hit }.estimate().map(|found| [found.low, found.high].map(rounded));
        assert_eq!(interval(0, 0), None);
        // Wilson's interval of 9 in 10.
        assert_eq!(interval(10, 9), Some([0.596, 0.982]));
        assert!(interval(1_000, 900).is_some_and(|[low, high]| low > 0.87 && high < 0.92));
        assert_eq!(interval(3, 3).map(|[_, high]| high), Some(1.0));
    }

    #[test]
    fn precision_is_of_labelled_stretches_and_false_alarms_are_of_sessions_too() {
        let quality = Quality {
            loops: Proportion { of: 5, hit: 4 },
            look_alikes: Proportion { of: 4, hit: 1 },
            successes: Proportion { of: 10, hit: 2 },
        };
        assert_eq!((quality.recall(), quality.precision()), (Some(0.8), Some(0.8)));
        assert_eq!(quality.false_alarms(), Proportion { of: 14, hit: 3 });
        assert_eq!((Quality::default().recall(), Quality::default().precision()), (None, None));
    }
}
