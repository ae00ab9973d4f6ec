//! `outcome_repeat`: the same answer to the same call, volatile text masked (rockbot). Page `detection`.
//!
//! Example: `check_inbox {}` → `{"mails":[]}` three times. A finding needs a full run and restarts the count. Limits: a fresh id
//! that no mask knows hides the loop; a tool that answers `pending` on purpose belongs to class `poll`.

use crate::detect::finding::{Family, Finding, halves, loop_identity, repeat_identity};
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::OutcomeRun;
use crate::policy::{Detector, OutcomeRepeat, ToolPolicy};

/// Takes a completed step; finds at each full run.
pub fn observe(settings: &OutcomeRepeat, tool: &ToolPolicy, run: &mut OutcomeRun, step: &Step) -> Option<Finding> {
    let outcome = if step.flags.has(Flags::ARGS_ONLY) { 0 } else { step.outcome.0 };
    if outcome == 0 && !step.flags.has(Flags::ARGS_ONLY) {
        return None;
    }
    let [high, low] = halves(step.call);
    let key = loop_identity(Family::Outcome, &[high, low, outcome]);
    if run.key == key {
        if run.count == 0 && run.triggers == 0 {
            run.first = step.sequence;
        }
        run.count += 1;
    } else {
        *run = OutcomeRun { key, count: 1, triggers: 0, first: step.sequence };
    }
    let threshold = step.scaled(tool, settings.threshold);
    if run.count < threshold {
        return None;
    }
    run.count = 0;
    run.triggers = run.triggers.saturating_add(1);
    let count = threshold.saturating_mul(run.triggers);
    let mut finding = Finding::new(Detector::OutcomeRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.8, 0.05)
        .blocking_at(step.scaled(tool, settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = run.triggers.min(3) as u8;
    Some(finding)
}
