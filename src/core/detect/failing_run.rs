//! Equal calls in a row that all failed, whatever their errors say. `exact_repeat` compares answers, and a time, a counter or the number of a
//! request in an error makes each another one; an outage is looked through by every count. Who makes the same call again and again, fails, and does
//! nothing else meanwhile goes round in circles all the same.

use crate::detect::exact_repeat::{self, RepeatCount};
use crate::detect::finding::Finding;
use crate::detect::history::History;
use crate::detect::pace::PATIENT_MS;
use crate::detect::step::{Flags, Step};
use crate::event::EventTime;
use crate::setting::ToolPolicy;

/// Whether a completed call is one failure too many of a row. Errors that differ bring a nudge and no block, as tests do that somebody mends in another
/// window; an outage is waited for like a poll, and one that is asked again sooner than somebody asks who waits is blocked at last.
#[must_use]
pub fn observe(settings: &exact_repeat::Settings, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let is_waited_for = step.flags.any(Flags(Flags::RETRYABLE.0 | Flags::POLL.0));
    let threshold = tool.scaled(settings.failures_at, is_waited_for);
    let is_asked = threshold > 0 && settings.count == RepeatCount::Run && step.failed();
    if !is_asked || history.calls_in_ring(step.call) < threshold {
        return None;
    }
    let row = Row::up_to(history, step);
    let block_at = if row.is_outage && !row.is_patient { tool.scaled(settings.block_at, true) } else { 0 };
    (row.count >= threshold).then(|| {
        exact_repeat::finding(settings, step, row.count, threshold).blocking_at(block_at).spanning(row.first, step.sequence)
    })
}

/// Equal calls that failed one after the other. Waits and outages of other calls may lie between them: that is all that was done.
struct Row {
    count: u32,
    first: u64,
    /// All of them were outages.
    is_outage: bool,
    /// Each came as late after the one before as somebody calls who waits.
    is_patient: bool,
}

impl Row {
    fn up_to(history: &History, step: &Step) -> Self {
        let mut row = Self { count: 0, first: step.sequence, is_outage: true, is_patient: true };
        let mut later: Option<EventTime> = None;
        let floor = history.floor();
        let not_later = history.ring_back().skip_while(|other| other.sequence > step.sequence);
        for earlier in not_later.take_while(|earlier| earlier.sequence >= floor) {
            let flags = earlier.flags;
            if !earlier.counts_or_met_outage() {
                continue;
            }
            if earlier.call == step.call && earlier.failed() {
                row.count += 1;
                row.first = earlier.sequence;
                row.is_outage &= flags.has(Flags::RETRYABLE);
                row.is_patient &= later.is_none_or(|later| later.0.saturating_sub(earlier.time.0) >= PATIENT_MS);
                later = Some(earlier.time);
            } else if earlier.call == step.call || !flags.any(Flags(Flags::WAITS.0 | Flags::RETRYABLE.0)) {
                break;
            }
        }
        row
    }
}
