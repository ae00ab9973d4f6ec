//! Time since the start, for the pauses of the circuit breaker and of warnings. The clock of the other crates comes with RocksDB.

#![expect(clippy::disallowed_methods, reason = "this is the one place of this crate that reads a clock")]

use std::time::{Duration, Instant};

/// Measures from its making. Monotonic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
