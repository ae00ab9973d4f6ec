//! `dead_end`: the same error comes back, whatever is tried (corteX). Page `detection`.
//!
//! Example: ten rewrites of a query on a table that does not exist. Limits: an outage is no dead end (retryable errors are
//! transparent), and texts that name no error (`exit 1`) have no key.

use crate::detect::finding::Family;
use crate::detect::finding::Finding;
use crate::detect::finding::loop_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::policy::DeadEnd;
use crate::policy::Detector;
use crate::policy::ToolPolicy;

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
