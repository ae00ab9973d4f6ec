//! How fast lanes judge, measured while they have more to do than they can: what an event costs depends on its content, so nothing else
//! tells how many may wait for a second.

/// Events a second, before anything was measured.
const START_PER_S: f64 = 4_000.0;
/// Nothing slower or faster is believed.
const PER_S_MIN: f64 = 100.0;
const PER_S_MAX: f64 = 100_000.0;
/// One measurement. Milliseconds.
const WINDOW_MS: u64 = 200;
/// Lanes have more to do than they can where the oldest event has waited for longer: far more than a commit takes. Milliseconds.
const BUSY_MS: u64 = 250;
/// How much more is tried in each window in which lanes were not busy and somebody was sent away.
const MORE: f64 = 1.05;

/// A rate that falls at once and rises slowly: who makes events cheap for a while must not gain room for dear ones.
#[derive(Debug)]
pub(super) struct Pace {
    per_s: f64,
    since_ms: u64,
    judged: usize,
    is_busy: bool,
    was_short: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { per_s: START_PER_S, since_ms: 0, judged: 0, is_busy: false, was_short: false }
    }
}

impl Pace {
    /// Events that are judged within so many milliseconds.
    pub(super) fn within(&self, ms: u64) -> usize {
        (self.per_s * ms as f64 / 1_000.0) as usize
    }

    /// Somebody was sent away for want of room.
    pub(super) fn is_short(&mut self) {
        self.was_short = true;
    }

    /// So many were judged; the oldest of all that wait has waited so long.
    pub(super) fn note(&mut self, judged: usize, oldest_ms: u64, now_ms: u64) {
        self.judged += judged;
        self.is_busy &= oldest_ms >= BUSY_MS;
        let elapsed_ms = now_ms.saturating_sub(self.since_ms);
        if elapsed_ms < WINDOW_MS {
            return;
        }
        if self.is_busy {
            let measured = self.judged as f64 * 1_000.0 / elapsed_ms as f64;
            let part = if measured < self.per_s { 0.5 } else { 0.1 };
            self.per_s += (measured - self.per_s) * part;
        } else if self.was_short {
            self.per_s *= MORE;
        }
        self.per_s = self.per_s.clamp(PER_S_MIN, PER_S_MAX);
        *self = Self { per_s: self.per_s, since_ms: now_ms, judged: 0, is_busy: oldest_ms >= BUSY_MS, was_short: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many seconds in which lanes judged so many events a second, with more of them waiting.
    fn after(pace: &mut Pace, seconds: u64, per_s: usize, from_ms: u64) -> u64 {
        let mut now_ms = from_ms;
        for _ in 0..seconds * 10 {
            now_ms += 100;
            pace.note(per_s / 10, 400, now_ms);
        }
        now_ms
    }

    #[test]
    fn a_rate_falls_at_once_and_rises_slowly() {
        let mut pace = Pace::default();
        let now_ms = after(&mut pace, 30, 20_000, 0);
        assert!((19_000..=20_000).contains(&pace.within(1_000)), "{}", pace.within(1_000));
        let now_ms = after(&mut pace, 2, 1_000, now_ms);
        assert!(pace.within(1_000) < 2_500, "{}", pace.within(1_000));
        after(&mut pace, 1, 20_000, now_ms);
        assert!(pace.within(1_000) < 12_000, "{}", pace.within(1_000));
    }

    #[test]
    fn lanes_with_little_to_do_say_nothing_of_how_fast_they_are() {
        let mut pace = Pace::default();
        for now_ms in (0..60_000).step_by(50) {
            pace.note(1, 60, now_ms);
        }
        assert_eq!(pace.within(1_000), START_PER_S as usize);
        pace.is_short();
        pace.note(1, 60, 61_000);
        assert!(pace.within(1_000) > START_PER_S as usize, "somebody was sent away though lanes had little to do");
    }
}
