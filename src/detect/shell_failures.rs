//! `shell_failures`: shell commands failing in a row (attocode's bash cascade). Page `detection`.
//!
//! Example: `npm install x`, `yarn add x`, `pnpm add x`, all failing. Limits: other tools in between neither count nor help;
//! outages and unobserved outcomes change nothing.

use crate::detect::finding::Family;
use crate::detect::finding::Finding;
use crate::detect::finding::loop_identity;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::detect::streaks::Streaks;
use crate::policy::Detector;
use crate::policy::ShellFailures;

/// Takes a completed step; only shell commands count.
pub fn observe(settings: &ShellFailures, streaks: &mut Streaks, step: &Step) -> Option<Finding> {
    if !step.flags.has(Flags::SHELL) {
        return None;
    }
    if step.flags.has(Flags::OK) {
        streaks.shell_failures = 0;
        return None;
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
