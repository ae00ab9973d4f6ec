//! What several rounds say together: the median of a figure, and an interval for it that supposes nothing of its distribution.

/// The least, the middle and the greatest of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of an even number the median lies between the two in the middle. Without any round all is NaN.
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_unstable_by(f64::total_cmp);
        let at = |at: usize| rounds.get(at).copied().unwrap_or(f64::NAN);
        let (low, high) = (rounds.len().saturating_sub(1) / 2, rounds.len() / 2);
        Self { least: at(0), median: f64::midpoint(at(low), at(high)), most: at(rounds.len().saturating_sub(1)) }
    }

    /// How sure it is that the true median lies between the least and the most of so many rounds. Per cent: each round is as likely below
    /// it as above, and all of them on one side is what must not have happened.
    pub(crate) fn certainty_percent(rounds: usize) -> f64 {
        100.0 * (1.0 - 0.5_f64.powi(rounds as i32 - 1))
    }
}

/// To hundredths.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 100.0).round() / 100.0
}

impl std::fmt::Display for Spread {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:.2} ({:.2} to {:.2})", self.median, self.least, self.most)
    }
}
