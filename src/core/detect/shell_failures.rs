//! `shell_failures`: shell commands failing in a row (attocode's bash cascade). Page `detection`.
//!
//! Example: `npm install x`, `yarn add x`, `pnpm add x`, all failing. Limits: other tools in between neither count nor help;
//! outages and unobserved outcomes change nothing. Where the policy spares what moves, a wait that ran out is no failure, and one that fails
//! otherwise than ever before, after a change, begins a new row: fourteen tests that fail, then eleven, then nine, are progress.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::Streaks;
use crate::policy::{Detector, ShellFailures};

/// Takes a completed step; only shell commands count.
pub fn observe(
    settings: &ShellFailures,
    spares_moving: bool,
    streaks: &mut Streaks,
    history: &History,
    step: &Step,
) -> Option<Finding> {
    if !step.flags.has(Flags::SHELL) {
        return None;
    }
    if step.flags.has(Flags::OK) {
        streaks.shell_failures = 0;
        return None;
    }
    if spares_moving && step.flags.has(Flags::WAITS) {
        return None;
    }
    if spares_moving && has_moved(history, step) {
        streaks.shell_failures = 0;
    }
    if streaks.shell_failures == 0 {
        streaks.shell_first = step.sequence;
    }
    streaks.shell_failures = streaks.shell_failures.saturating_add(1);
    (streaks.shell_failures >= settings.threshold).then(|| {
        Finding::new(
            Detector::ShellFailures,
            settings.mode,
            loop_identity(Family::Shell, &[]),
            streaks.shell_failures,
            settings.threshold,
        )
        .confident(0.5, 0.1)
        .spanning(streaks.shell_first, step.sequence)
    })
}

/// Whether a failure not seen before follows a change that was made since the last one.
fn has_moved(history: &History, step: &Step) -> bool {
    let is_failure = |earlier: &&Step| earlier.failed() && earlier.flags.has(Flags::SHELL);
    let mut since = history.complete_back_from(step).skip(1).take_while(|earlier| !is_failure(earlier));
    step.outcome.is_some() && !step.flags.has(Flags::SEEN_OUTCOME) && since.any(|earlier| earlier.flags.has(Flags::MUTATED))
}
