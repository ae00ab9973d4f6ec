//! `state_repeat`: back in a state where the agent has been, anywhere in a window (corteX exact). Page `detection`.
//!
//! The detector for interleaved loops: A, x, A, y, A. Limits: edit and re-run looks alike, hence the rule on mutations and the
//! default threshold of 5, and twice as much where receipts leave it open whether anything has changed.

use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::policy::{Detector, StateRepeat, ToolPolicy};

/// So much more often a state must come back that says nothing, or between whose times something was tried that may have changed it.
const DOUBT_FACTOR: u32 = 2;

/// Counts the completed step's state in the window.
#[must_use]
pub fn observe(settings: &StateRepeat, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    // The index counts the whole ring: below the threshold there, below it in any window.
    let has_none = !step.state.is_some() || step.flags.any(Flags(Flags::ARGS_ONLY.0 | Flags::CUT.0));
    if has_none || history.seen_state(step.state) < threshold {
        return None;
    }
    // A click on `Next` is answered alike on every page: who is shown something new in between is getting on.
    let is_receipt = step.flags.has(Flags::RECEIPT);
    // A new edit is something new, though its receipt may be the one that all edits bring.
    let is_novel = |earlier: &Step| {
        let flags = earlier.flags;
        let is_new_answer = !flags.has(Flags::SEEN_OUTCOME) && !flags.has(Flags::RECEIPT);
        flags.has(Flags::NEW_CHANGE) || (is_new_answer && (is_receipt || !flags.has(Flags::SEEN_CALL)))
    };
    // What was not done before and brought a receipt may have changed where the agent is, as another directory does, or nothing at all.
    let is_attempt = |earlier: &Step| earlier.flags.has(Flags::RECEIPT) && !earlier.flags.has(Flags::SEEN_CALL);
    let hard = step.failed() || step.flags.has(Flags::TEST);
    let mut count = 0;
    let mut first = step.sequence;
    // As far as nothing leaves it open whether anything has changed.
    let mut sure = (settings.novelty_ends && is_receipt).then_some((0, first));
    for earlier in history.complete_back_from(step).take(settings.window_steps as usize) {
        // Edit, then re-run, is work: a mutation by another call ends the look back of a failing call or a test run.
        if hard && earlier.flags.has(Flags::MUTATED) && earlier.call != step.call {
            break;
        }
        if earlier.state == step.state {
            count += 1;
            first = earlier.sequence;
        } else if settings.novelty_ends && is_novel(earlier) {
            break;
        } else if settings.novelty_ends && is_attempt(earlier) {
            sure.get_or_insert((count, first));
        }
    }
    let sure = sure.unwrap_or((count, first));
    let doubtful = (count, first, threshold.saturating_mul(DOUBT_FACTOR));
    let (count, first, threshold) = if sure.0 >= threshold { (sure.0, sure.1, threshold) } else { doubtful };
    (count >= threshold).then(|| {
        Finding::new(Detector::StateRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
            .confident(0.5, 0.15)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}
