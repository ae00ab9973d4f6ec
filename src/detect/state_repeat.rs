//! `state_repeat`: back in a state where the agent has been, anywhere in a window (corteX exact). Page `detection`.
//!
//! The detector for interleaved loops: A, x, A, y, A. Limits: edit and re-run looks alike, hence the rule on mutations and the
//! default threshold of 5; a call that is answered by a receipt alone has no state.

use crate::detect::finding::Finding;
use crate::detect::finding::repeat_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::policy::Detector;
use crate::policy::StateRepeat;
use crate::policy::ToolPolicy;

/// A success that says nothing.
const RECEIPT: Flags = Flags(Flags::OK.0 | Flags::GENERIC.0);

/// Counts the completed step's state in the window.
#[must_use]
pub fn observe(settings: &StateRepeat, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    // A click on `Next` is answered alike on every page: a receipt does not say where the agent is.
    let is_receipt = step.flags.has(RECEIPT);
    // The index counts the whole ring: below the threshold there, below it in any window.
    let has_none = is_receipt || !step.state.is_some() || step.flags.any(Flags(Flags::ARGS_ONLY.0 | Flags::CUT.0));
    if has_none || history.seen_state(step.state) < threshold {
        return None;
    }
    // A new edit is something new, though its receipt may be the one that all edits bring; so is what else was not done before and is answered by
    // one, as a change of directory is.
    let is_novel = |earlier: &Step| {
        let flags = earlier.flags;
        let is_new_call = !flags.has(Flags::SEEN_CALL);
        let is_new_answer = !flags.has(Flags::SEEN_OUTCOME) || flags.has(RECEIPT);
        flags.has(Flags::NEW_CHANGE) || (is_new_call && is_new_answer)
    };
    let hard = step.failed() || step.flags.has(Flags::TEST);
    let mut count = 0;
    let mut first = step.sequence;
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
        }
    }
    (count >= threshold).then(|| {
        Finding::new(Detector::StateRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
            .confident(0.5, 0.15)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}
