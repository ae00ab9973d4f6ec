//! The only reader of time: the wall clock in Unix milliseconds, without its jumps, deadlines and stopwatches on the monotonic one.
//!
//! Nothing that is published depends on it (rules C14, K2): it bounds waits and measures, and says what a silent partition has passed
//! (rule W5).

#![expect(clippy::disallowed_methods, reason = "this is the one place that reads a clock")]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::ClockId;

use crate::steady::SteadyClock;

/// Longest wait a [`Deadline`] can hold; what is asked beyond it is cut, so that no sum overflows.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// How long a jump of the wall clock is doubted. It ends what has a time: a block, a stop, a link. Milliseconds.
const DOUBT_MS: i64 = 600_000;
/// A clock that nobody sets and that goes on while the machine sleeps: who wakes up is not ahead.
#[cfg(target_os = "linux")]
const UNSET: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const UNSET: ClockId = ClockId::Monotonic;

/// The wall clock in Unix milliseconds, one for the whole process: what is recorded, judged and shown has the same time. A jump ahead is
/// believed only once it lasts, so that a clock that is wrong for a moment ends nothing. 0 on a machine whose clock stands before 1970.
pub fn now_ms() -> i64 {
    static STEADY: Mutex<Option<SteadyClock>> = Mutex::new(None);
    let mut steady = STEADY.lock().unwrap_or_else(PoisonError::into_inner);
    let (wall_ms, unset) = (unix_ms(SystemTime::now()), rustix::time::clock_gettime(UNSET));
    let unset_ms = (unset.tv_sec.unsigned_abs() * 1_000).saturating_add(unset.tv_nsec.unsigned_abs() / 1_000_000);
    steady.get_or_insert_with(|| SteadyClock::new(wall_ms, unset_ms, DOUBT_MS)).look(wall_ms, unset_ms)
}

/// A time of the system in Unix milliseconds; what lies before 1970 is 0.
pub fn unix_ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A point in time at which waiting ends. Monotonic.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
}

impl Deadline {
    /// The deadline that lies `wait` from now; at most a year.
    pub fn after(wait: Duration) -> Self {
        Self { at: Instant::now() + wait.min(WAIT_MAX) }
    }

    /// What is left of it; zero once it is over.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// Measures how long something takes. Monotonic.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    since: Instant,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self { since: Instant::now() }
    }

    /// Time since the start, or since the last lap.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Microseconds since the start or the last lap; a new lap begins.
    pub fn lap_us(&mut self) -> u64 {
        let now = Instant::now();
        let lap = now.saturating_duration_since(self.since);
        self.since = now;
        lap.as_micros() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_without_wait_is_over_and_one_of_a_century_is_not() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        let far = Deadline::after(Duration::MAX);
        assert!(!far.is_over());
        assert!(far.left() <= WAIT_MAX);
    }

    #[test]
    fn the_wall_clock_counts_milliseconds_since_1970() {
        // Between 2020 and 2200: not seconds, not microseconds.
        assert!((1_577_836_800_000..7_258_118_400_000).contains(&now_ms()));
    }
}
