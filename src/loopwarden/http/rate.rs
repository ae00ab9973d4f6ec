//! Requests per second, per group of routes: a bucket for this host and one for all others, so that nobody else can lock out the operator.

use std::sync::{Mutex, PoisonError};

use loopwarden_log::clock::Stopwatch;

use crate::http::routes::Group;

/// A thousandth of a request.
const MILLI: u64 = 1_000;

#[derive(Debug)]
struct Bucket {
    per_second: u64,
    burst: u64,
    /// Thousandths of requests left, and when that was, in milliseconds.
    left: Mutex<(u64, u64)>,
}

impl Bucket {
    fn new(per_second: u64, burst: u64) -> Self {
        Self { per_second, burst, left: Mutex::new((burst * MILLI, 0)) }
    }

    fn take(&self, now_ms: u64) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, since) = *left;
        // So many per second are as many thousandths per millisecond.
        let tokens = tokens.saturating_add(now_ms.saturating_sub(since).saturating_mul(self.per_second)).min(self.burst * MILLI);
        let is_taken = tokens >= MILLI;
        *left = (if is_taken { tokens - MILLI } else { tokens }, now_ms.max(since));
        is_taken
    }
}

/// The buckets of every group.
#[derive(Debug)]
pub(super) struct Rates {
    clock: Stopwatch,
    open: [Bucket; 2],
    admin: [Bucket; 2],
    events: [Bucket; 2],
    commands: [Bucket; 2],
    checks: [Bucket; 2],
}

impl Rates {
    pub(super) fn new() -> Self {
        let both = |per_second, burst| [Bucket::new(per_second, burst), Bucket::new(per_second, burst)];
        Self {
            clock: Stopwatch::start(),
            open: both(50, 100),
            admin: both(50, 200),
            // Each request is a write and waits for a sync; a request may hold thousands of events.
            events: both(2_000, 4_000),
            commands: both(500, 1_000),
            checks: both(5_000, 10_000),
        }
    }

    /// Whether one more may be answered.
    pub(super) fn take(&self, group: Group, is_local: bool) -> bool {
        let pair = match group {
            Group::Probe => return true,
            Group::Open => &self.open,
            Group::Admin => &self.admin,
            Group::Events => &self.events,
            Group::Commands => &self.commands,
            Group::Checks => &self.checks,
        };
        let [local, other] = pair;
        let bucket = if is_local { local } else { other };
        bucket.take(self.clock.elapsed().as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_then_its_rate() {
        let bucket = Bucket::new(2, 3);
        assert_eq!([0; 4].map(|at| bucket.take(at)), [true, true, true, false]);
        assert!(!bucket.take(499));
        assert!(bucket.take(500));
        assert!(!bucket.take(500));
        assert!([3_600_000; 3].iter().all(|at| bucket.take(*at)));
        assert!(!bucket.take(3_600_000), "more than the burst was saved up");
    }
}
