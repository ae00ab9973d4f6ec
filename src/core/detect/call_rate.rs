//! `call_rate`: too many equal calls in a sliding window (IronCurtain's circuit breaker). Page `detection`.
//!
//! `limit` calls pass, the next is refused; a poll may ask `poll_factor` times as often. Calls that brought something new, and those of one batch, are
//! refused only where the policy says so. Limits: calls spaced just outside the window never trip it; the counting detectors are free of time and do.

use crate::detect::finding::{Family, Finding, halves, loop_identity};
use crate::detect::history::History;
use crate::detect::moving::is_parallel;
use crate::detect::step::{Flags, Step};
use crate::event::EventTime;
use crate::policy::{CallRate, Counted, Detector, ToolPolicy};

/// Whether a call without a word of its own was followed, before it was made again, by another one that brought an answer not seen before, as a
/// look at the screen does after each scroll, or that was new itself and worked, as the entry of a field does after each tabulator.
fn showed_later(history: &History, call: &Step, step: &Step) -> bool {
    let brought_new = |other: &Step| {
        let is_new_answer = other.outcome.is_some() && !other.flags.has(Flags::SEEN_OUTCOME);
        other.flags.has(Flags(Flags::OBSERVED.0 | Flags::OK.0)) && (is_new_answer || !other.flags.has(Flags::SEEN_CALL))
    };
    let between =
        history.ring().skip_while(|other| other.sequence <= call.sequence).take_while(|other| other.sequence < step.sequence);
    call.flags.has(Flags::GENERIC) && between.take_while(|other| other.call != call.call).any(brought_new)
}

/// So many times as often as the limit allows, equal calls of one turn may be one batch; more of them are a loop within a turn.
const BATCH_FACTOR: usize = 2;

/// Judges the newest call. It is already recorded: the audit precedes the verdict.
#[must_use]
pub fn observe(settings: &CallRate, tool: &ToolPolicy, history: &History, step: &Step, now: EventTime) -> Option<Finding> {
    let limit = step.scaled(tool, settings.limit);
    // The index counts the whole ring: not more than the limit there, not more in any window.
    if history.calls_in_ring(step.call) <= limit {
        return None;
    }
    let from = now.minus_ms(settings.window_ms);
    let is_out = Flags(Flags::REFUSED.0 | Flags::OVER_RATE.0 | Flags::EXEMPT.0);
    let kept = history.ring_back().take_while(|step| !step.flags.has(Flags::FORGOTTEN));
    let earlier = kept.skip_while(|earlier| earlier.sequence >= step.sequence);
    let equal: Vec<&Step> = earlier
        .take_while(|earlier| earlier.time > from)
        .filter(|earlier| earlier.call == step.call && !earlier.flags.any(is_out))
        .collect();
    if equal.len() < limit as usize {
        return None;
    }
    // Nobody knows what the first of them brought.
    let before = equal.iter().skip(1).map(|earlier| Some(*earlier)).chain([None]);
    let got_further = |call: &Step, before: Option<&Step>| before.is_some_and(|before| call.got_further(before));
    // A batch is one piece of evidence: the calls of a fan-out are all made before the first answer is there.
    let may_be_batch = equal.len() < limit as usize * BATCH_FACTOR;
    let is_of_batch = |call: &Step, before: Option<&Step>| {
        may_be_batch && call.flags.has(Flags::SAME_TURN) && before.is_some_and(|before| is_parallel(call, before))
    };
    let in_vain: Vec<&Step> = equal
        .iter()
        .zip(before)
        .filter(|(call, before)| {
            settings.count == Counted::All
                || !(is_of_batch(call, *before) || got_further(call, *before) || showed_later(history, call, step))
        })
        .map(|(call, _)| *call)
        .collect();
    // Calls that brought something new, or are one batch, are many, and no loop: that is said, and not refused.
    let may_block = in_vain.len() >= limit as usize;
    let counted = if may_block { in_vain } else { equal };
    let oldest = counted.last().copied().unwrap_or(step);
    let identity = loop_identity(Family::Rate, &halves(step.call));
    let mut finding = Finding::new(Detector::CallRate, settings.mode, identity, counted.len() as u32 + 1, limit + 1)
        .blocking_at(u32::from(may_block))
        .within(settings.window_ms.unsigned_abs())
        .spanning(oldest.sequence, step.sequence);
    finding.free_at = may_block.then(|| oldest.time.plus_ms(settings.window_ms));
    Some(finding)
}
