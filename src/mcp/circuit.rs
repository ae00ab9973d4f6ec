//! Three failures in a row, and for five seconds nobody is asked. What is wrong is reported once a minute.

use std::time::{Duration, Instant};

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 3;
/// How long it stays open. Then one question goes through and decides.
const OPEN: Duration = Duration::from_secs(5);
/// Between two warnings.
const QUIET: Duration = Duration::from_secs(60);

/// Time since its making, monotonic: the clock of the other crates comes with RocksDB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place of this crate that reads a clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The circuit breaker. Times are since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Circuit {
    failures: u32,
    open_until: Duration,
    warned_at: Option<Duration>,
}

impl Circuit {
    /// Whether somebody is asked now.
    pub(crate) fn lets_through(&mut self, now: Duration) -> bool {
        if self.failures < FAILURES_MAX {
            return true;
        }
        let is_open = now < self.open_until;
        if !is_open {
            // One tries; the others do not wait for what comes of it.
            self.open_until = now + OPEN;
        }
        !is_open
    }

    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Whether a warning is due.
    pub(crate) fn failed(&mut self, now: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES_MAX {
            self.open_until = now + OPEN;
        }
        self.may_warn(now)
    }

    /// Whether a warning is due; it is given then.
    pub(crate) fn may_warn(&mut self, now: Duration) -> bool {
        let is_due = self.warned_at.is_none_or(|at| now >= at + QUIET);
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_open_it_for_five_seconds_then_one_decides() {
        let at = Duration::from_secs;
        let mut circuit = Circuit::default();
        let warned: Vec<bool> = (0..3).map(|second| circuit.failed(at(second))).collect();
        assert_eq!(warned, [true, false, false]);
        assert!(!circuit.lets_through(at(6)) && circuit.lets_through(at(7)), "two and five seconds");
        assert!(!circuit.lets_through(at(7)), "another one meanwhile");
        assert!(!circuit.failed(at(8)) && !circuit.lets_through(at(12)) && circuit.lets_through(at(13)));
        circuit.succeeded();
        assert!(circuit.lets_through(at(13)) && circuit.lets_through(at(13)));
        assert!(!circuit.failed(at(59)) && circuit.failed(at(60)) && circuit.lets_through(at(60)));
    }
}
