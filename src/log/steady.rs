//! A wall clock whose jumps are not believed before the monotonic clock has agreed with them for as long as they are.
//!
//! What is deleted by its age is gone. A clock that runs a month ahead for a minute (a wrong time server, a battery, a virtual machine that
//! woke up) makes everything a month old for that minute.

/// What the wall clock may be ahead without doubt: it is slewed, and read a moment later. Milliseconds.
const TOLERANCE_MS: i64 = 60_000;

/// The time that is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SteadyClock {
    /// Unix milliseconds.
    now_ms: i64,
    /// When it was looked at last, monotonic ms.
    mono_ms: u64,
    /// How far the wall clock was ahead of it then. Milliseconds.
    gap_ms: i64,
    /// For how long it has been ahead by as much. Monotonic ms.
    ahead_ms: i64,
    /// Longest time for which a jump is doubted, however long it is. Monotonic ms.
    doubt_ms_max: i64,
}

impl SteadyClock {
    /// A clock that believes in `now_ms` at the monotonic time `mono_ms`; a wall clock ahead of it is believed in after as long as it is
    /// ahead, or after `doubt_ms_max`.
    #[must_use]
    pub const fn new(now_ms: i64, mono_ms: u64, doubt_ms_max: i64) -> Self {
        Self { now_ms, mono_ms, gap_ms: 0, ahead_ms: 0, doubt_ms_max }
    }

    /// The time as it was at the last look.
    #[must_use]
    pub const fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The time, with what the two clocks say now. One that went back is followed at once: then nothing is older than it was.
    pub fn look(&mut self, wall_ms: i64, mono_ms: u64) -> i64 {
        let passed_ms = i64::try_from(mono_ms.saturating_sub(self.mono_ms)).unwrap_or(i64::MAX);
        self.mono_ms = self.mono_ms.max(mono_ms);
        let here_ms = self.now_ms.saturating_add(passed_ms);
        let gap_ms = wall_ms.saturating_sub(here_ms);
        // Another jump is doubted anew.
        let is_the_same = gap_ms.abs_diff(self.gap_ms) <= TOLERANCE_MS.unsigned_abs();
        self.gap_ms = gap_ms;
        self.ahead_ms = if is_the_same { self.ahead_ms.saturating_add(passed_ms) } else { 0 };
        if gap_ms <= TOLERANCE_MS || self.ahead_ms >= gap_ms.min(self.doubt_ms_max) {
            (self.now_ms, self.gap_ms, self.ahead_ms) = (wall_ms, 0, 0);
        } else {
            self.now_ms = here_ms;
        }
        self.now_ms
    }

    /// What a later process goes on with: it was not there in between, so that it doubts as much as this one.
    #[must_use]
    pub fn encode(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip([self.now_ms, self.gap_ms, self.ahead_ms]) {
            *place = number.to_be_bytes();
        }
        bytes
    }

    /// Goes on with what an earlier process believed; `None` for bytes that none has written.
    #[must_use]
    pub fn decode(bytes: &[u8], mono_ms: u64, doubt_ms_max: i64) -> Option<Self> {
        let ([now, gap, ahead], []) = bytes.as_chunks::<8>() else { return None };
        let [now_ms, gap_ms, ahead_ms] = [now, gap, ahead].map(|number| i64::from_be_bytes(*number));
        Some(Self { now_ms, mono_ms, gap_ms, ahead_ms: ahead_ms.max(0), doubt_ms_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const DAY_MS: i64 = 24 * HOUR_MS;
    const NOW_MS: i64 = 1_795_291_200_000;

    /// Looks once a minute for `minutes`, with a wall clock that is `ahead_ms` ahead of the true one; what is believed beyond the true one.
    fn lives(clock: &mut SteadyClock, mono_ms: &mut u64, minutes: u64, ahead_ms: i64) -> i64 {
        let mut ahead = 0;
        for _ in 0..minutes {
            *mono_ms += 60_000;
            let true_ms = NOW_MS + *mono_ms as i64;
            ahead = clock.look(true_ms + ahead_ms, *mono_ms) - true_ms;
        }
        ahead
    }

    #[test]
    fn a_jump_is_believed_after_as_long_as_it_is_and_not_before() {
        let (mut clock, mut mono) = (SteadyClock::new(NOW_MS, 0, i64::MAX), 0);
        assert_eq!(lives(&mut clock, &mut mono, 100, 0), 0);
        assert_eq!(lives(&mut clock, &mut mono, 2, 30 * DAY_MS), 0, "a month, for two minutes");
        assert_eq!(lives(&mut clock, &mut mono, 59, HOUR_MS), 0, "the month counts for nothing");
        assert_eq!(lives(&mut clock, &mut mono, 5, HOUR_MS), HOUR_MS);
        assert_eq!(lives(&mut clock, &mut mono, 1, 0), 0, "back at once");
        assert_eq!(lives(&mut clock, &mut mono, 1, 60_000), 60_000, "no more than it may be slewed");
    }

    #[test]
    fn a_jump_of_years_is_believed_after_the_longest_doubt() {
        let (mut clock, mut mono) = (SteadyClock::new(0, 0, 10 * 60_000), 0);
        assert!(lives(&mut clock, &mut mono, 9, 0) < -50 * 365 * DAY_MS);
        assert_eq!(lives(&mut clock, &mut mono, 2, 0), 0);
    }

    #[test]
    fn a_restart_goes_on_to_doubt() {
        let (mut clock, mut mono) = (SteadyClock::new(NOW_MS, 0, i64::MAX), 0);
        assert_eq!(lives(&mut clock, &mut mono, 40, HOUR_MS), 0);
        let mut clock = SteadyClock::decode(&clock.encode(), mono, i64::MAX).unwrap();
        assert_eq!(lives(&mut clock, &mut mono, 15, HOUR_MS), 0);
        assert_eq!(lives(&mut clock, &mut mono, 10, HOUR_MS), HOUR_MS);
        assert_eq!(SteadyClock::decode(&[0; 23], 0, 0), None);
        assert_eq!(SteadyClock::new(i64::MAX, 0, 0).look(i64::MIN, u64::MAX), i64::MIN);
    }
}
