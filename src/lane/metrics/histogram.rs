//! Durations in buckets.

/// Upper bounds of a histogram's buckets, microseconds; the last bucket has none.
pub const BUCKETS_US: [u64; 15] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
];

/// Counts of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// One per bound of [`BUCKETS_US`], and one above; not cumulative.
    pub buckets: [u64; 16],
    /// Sum of all. Microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn note_us(&mut self, us: u64) {
        let at = BUCKETS_US.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.buckets.get_mut(at) {
            *bucket += 1;
        }
        self.sum_us += us;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to += from;
        }
        self.sum_us += other.sum_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_into_the_bucket_whose_bound_holds_the_value() {
        let mut histogram = Histogram::default();
        for us in [0, 250, 251, 300_000_001] {
            histogram.note_us(us);
        }
        assert_eq!((histogram.buckets[0], histogram.buckets[1], histogram.buckets[15]), (2, 1, 1));
        assert_eq!(histogram.count(), 4);
    }
}
