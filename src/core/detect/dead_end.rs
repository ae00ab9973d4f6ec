//! `dead_end`: the same error comes back, whatever is tried (corteX). Page `detection`.
//!
//! Example: ten rewrites of a query on a table that does not exist. Limits: an outage is none before it has met many replies in a row
//! (retryable errors are transparent), and texts that name no error (`exit 1`) have no key.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::policy::{DeadEnd, Detector, ToolPolicy};

/// Counts the completed step's error in the window; steps without one do not reset.
#[must_use]
pub fn observe(settings: &DeadEnd, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    if !step.error.is_some() {
        return None;
    }
    let threshold = step.scaled(tool, settings.threshold);
    let mut count = 0;
    let mut first = step.sequence;
    for earlier in history.counted_back_from(step).take(settings.window_steps as usize) {
        // Edit, then re-run, is work: a mutation by another call ends the look back, as in every window.
        if earlier.flags.has(Flags::MUTATED) && earlier.call != step.call {
            break;
        }
        if earlier.error == step.error {
            count += 1;
            first = earlier.sequence;
        }
    }
    (count >= threshold).then(|| {
        Finding::new(Detector::DeadEnd, settings.mode, loop_identity(Family::Error, &[step.error.0]), count, threshold)
            .confident(0.6, 0.1)
            .within(u64::from(settings.window_steps))
            .spanning(first, step.sequence)
    })
}

/// Whether a completed outage is one too many of a row, whatever was asked for: who goes on asking a service that is down in ever other ways
/// has come to an end too. Each reply counts once, however many calls it made; between them lie at most waits.
#[must_use]
pub fn outages(settings: &DeadEnd, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = tool.scaled(settings.outages_at, false);
    if threshold == 0 || !is_outage(step) {
        return None;
    }
    let passed = Flags(Flags::EXEMPT.0 | Flags::REFUSED.0 | Flags::SAME_TURN.0);
    let floor = history.floor();
    let row = history
        .ring_back()
        .skip_while(|other| other.sequence > step.sequence)
        .take_while(|earlier| earlier.sequence >= floor)
        .filter(|earlier| !earlier.flags.any(passed))
        .take_while(|earlier| is_outage(earlier) || earlier.flags.has(Flags::WAITS))
        .filter(|earlier| is_outage(earlier));
    let (mut count, mut first, mut turn) = (0, step.sequence, 0);
    for earlier in row {
        count += u32::from(earlier.turn == 0 || earlier.turn != turn);
        (first, turn) = (earlier.sequence, earlier.turn);
    }
    (count >= threshold).then(|| {
        Finding::new(Detector::DeadEnd, settings.mode, loop_identity(Family::Error, &[]), count, threshold)
            .confident(0.6, 0.1)
            .spanning(first, step.sequence)
    })
}

const fn is_outage(step: &Step) -> bool {
    step.failed() && step.flags.has(Flags::RETRYABLE)
}
