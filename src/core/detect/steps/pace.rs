//! How far apart calls are made, in event time: by one reply, by a loop, or by somebody who waits.

use crate::detect::steps::step::Step;

/// Between two equal calls of one reply at most, ms. A model that is asked again needs longer.
const PARALLEL_MS: i64 = 2_000;

/// Whether two equal calls may be of one reply by their times.
#[must_use]
pub(crate) const fn is_parallel(call: &Step, before: &Step) -> bool {
    call.time.0.saturating_sub(before.time.0) < PARALLEL_MS
}
