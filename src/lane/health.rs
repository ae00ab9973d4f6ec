//! How long what a lane tries has been failing: pauses between tries, and when to give up.

/// Longest pause after a failed commit. Milliseconds.
const BACKOFF_MS_MAX: u64 = 5_000;
/// First pause after a failed commit. Milliseconds.
const BACKOFF_MS: u64 = 100;
/// Without a commit for so long, the process is of no use. Milliseconds.
pub(crate) const TROUBLE_MS_MAX: u64 = 180_000;
/// Fenced so often within [`FENCED_WITHIN_MS`], another process has this identity: two that take it from one another fence at each commit.
/// A broker that ends a transaction for its age fences too, but six times within a minute at the most, so old must each have become, and
/// a coordinator once each time it moves.
const FENCED_MAX: usize = 10;
/// See [`FENCED_MAX`]. Milliseconds.
const FENCED_WITHIN_MS: u64 = 60_000;
/// Failures that lie further apart have not one cause: what a lane tries it tries again much sooner. Milliseconds.
const APART_MS: u64 = 60_000;
/// Polls that fail from time to time fail in a row: a client asks again within seconds. Milliseconds.
const QUIET_MS: u64 = 10_000;

/// When something began that may last too long, on the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Since(Option<u64>);

impl Since {
    /// It began at `now_ms`.
    pub(crate) const fn at(now_ms: u64) -> Self {
        Self(Some(now_ms))
    }

    /// How long it has lasted; it begins now if it had not. Milliseconds.
    pub(crate) fn lasts_ms(&mut self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(*self.0.get_or_insert(now_ms))
    }
}

/// What a lane tries again and again, each kind with its own failures.
#[derive(Debug, Default)]
pub(crate) struct Health {
    pub(crate) commits: RetryState,
    pub(crate) polls: RetryState,
    /// Seeks, and replacing the producer: over when all tasks are read again. Polls go on meanwhile and say nothing about it.
    pub(crate) standstill: RetryState,
}

impl Health {
    /// Whether polls, commits, seeks or a new producer fail more than once in a row. One failure is over within a moment; and of many, the
    /// next try is no end.
    pub(crate) const fn is_held_up(&self, now_ms: u64) -> bool {
        self.commits.in_row_at(now_ms) + self.standstill.in_row_at(now_ms) > 1 || self.polls.in_row_at(now_ms) > 1
    }
}

/// How long one kind of thing has been going wrong.
#[derive(Debug, Default)]
pub(crate) struct RetryState {
    pub(crate) in_row: u32,
    since: Since,
    last_ms: u64,
    /// When it was fenced, within the last while.
    fenced_ms: Vec<u64>,
}

impl RetryState {
    /// Notes a failure; true when it has gone on for too long. A lane that had nothing to do after one has not failed since.
    pub(crate) fn is_exhausted_by(&mut self, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.last_ms) > APART_MS {
            self.reset();
        }
        self.last_ms = now_ms;
        self.in_row = self.in_row.saturating_add(1);
        self.since.lasts_ms(now_ms) > TROUBLE_MS_MAX
    }

    /// Pause before the next try. Milliseconds.
    pub(crate) fn backoff_ms(&self) -> u64 {
        let doublings = self.in_row.saturating_sub(1).min(6);
        (BACKOFF_MS << doublings).min(BACKOFF_MS_MAX)
    }

    /// Failures of the present row; none where the last one lies so far back that the next would begin another.
    pub(crate) const fn in_row_at(&self, now_ms: u64) -> u32 {
        if now_ms.saturating_sub(self.last_ms) > APART_MS { 0 } else { self.in_row }
    }

    /// Whether nothing has failed for a while. Of many partitions one may fail at each try, between good answers of the others.
    pub(crate) const fn is_quiet(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.last_ms) > QUIET_MS
    }

    pub(crate) fn reset(&mut self) {
        self.in_row = 0;
        self.since = Since::default();
    }

    /// Notes that it was fenced; true when that was too often for chance.
    pub(crate) fn is_replaced(&mut self, now_ms: u64) -> bool {
        self.fenced_ms.retain(|before| now_ms.saturating_sub(*before) < FENCED_WITHIN_MS);
        self.fenced_ms.push(now_ms);
        self.fenced_ms.len() >= FENCED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_wait_longer_each_time_and_not_for_ever() {
        let mut trouble = RetryState::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                trouble.is_exhausted_by(0);
                trouble.backoff_ms()
            })
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert!([60_000, 120_000, 180_000].iter().all(|now_ms| !trouble.is_exhausted_by(*now_ms)));
        assert!(trouble.is_exhausted_by(180_001));
        trouble.reset();
        assert!(!trouble.is_exhausted_by(200_000));
    }

    #[test]
    fn a_failure_long_after_the_last_one_is_the_first_of_another_row() {
        let mut trouble = RetryState::default();
        assert!(![0, 100_000, 200_000].iter().any(|now_ms| trouble.is_exhausted_by(*now_ms)));
        assert_eq!((trouble.in_row_at(200_000), trouble.in_row_at(260_001)), (1, 0));
    }

    #[test]
    fn being_fenced_ten_times_within_a_minute_means_somebody_else() {
        let mut trouble = RetryState::default();
        assert!((0..9).all(|now_ms| !trouble.is_replaced(now_ms)));
        assert!((60_008..60_016).all(|now_ms| !trouble.is_replaced(now_ms)));
        assert!(!trouble.is_replaced(61_000));
        assert!(trouble.is_replaced(61_001));
    }
}
