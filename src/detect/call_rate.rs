//! `call_rate`: too many equal calls in a sliding window (IronCurtain's circuit breaker). `detectors.md` 3.9.
//!
//! `limit` calls pass, the next is refused; a poll may ask `poll_factor` times as often. Limits: calls spaced just outside the window never trip it; the counting detectors
//! are free of time and do.

use crate::detect::finding::Family;
use crate::detect::finding::Finding;
use crate::detect::finding::halves;
use crate::detect::finding::loop_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::event::EventTime;
use crate::policy::CallRate;
use crate::policy::Detector;
use crate::policy::ToolPolicy;

/// Judges the newest call. It is already recorded: the audit precedes the verdict.
#[must_use]
pub fn observe(settings: &CallRate, tool: &ToolPolicy, history: &History, step: &Step, now: EventTime) -> Option<Finding> {
    let limit = step.scaled(tool, settings.limit);
    // The index counts the whole ring: not more than the limit there, not more in any window.
    if history.calls_in_ring(step.call) <= limit {
        return None;
    }
    let from = now.minus_ms(settings.window_ms);
    let mut count = 0;
    let mut oldest = step;
    let earlier = history.ring_back().skip_while(|earlier| earlier.sequence >= step.sequence);
    for earlier in earlier.take_while(|earlier| earlier.time > from) {
        let is_out = earlier.flags.any(Flags(Flags::REFUSED.0 | Flags::OVER_RATE.0 | Flags::EXEMPT.0 | Flags::FORGOTTEN.0));
        if earlier.call == step.call && !is_out {
            count += 1;
            oldest = earlier;
        }
    }
    (count >= limit).then(|| {
        let identity = loop_identity(Family::Rate, &halves(step.call));
        let mut finding = Finding::new(Detector::CallRate, settings.mode, identity, count + 1, limit + 1)
            .blocking_at(1)
            .within(settings.window_ms.unsigned_abs())
            .spanning(oldest.sequence, step.sequence);
        finding.free_at = Some(oldest.time.plus_ms(settings.window_ms));
        finding
    })
}
