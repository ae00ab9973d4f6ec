//! `stagnation` and `stuck`: approach × outcome, seen or new (IronCurtain's progress matrix). Page `detection`.
//!
//! Example: one call, one answer, over and over is stagnation; new calls that all bring one known answer are stuck. Limits:
//! volatile answers make every step `world_changed` (masks are on by default); *seen* means held by the ring.

use crate::detect::finding::{Family, Finding, loop_identity, repeat_identity};
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::{Category, Matrix};
use crate::policy::{Detector, ProgressMatrix, ToolPolicy};

/// Classes the completed step and moves both streaks. At most one finding: a stagnation block, a stuck block, stagnation, stuck.
pub fn observe(
    stagnation: &ProgressMatrix,
    stuck: &ProgressMatrix,
    tool: &ToolPolicy,
    matrix: &mut Matrix,
    step: &Step,
) -> Option<Finding> {
    if !step.outcome.is_some() || tool.args_only || !(tool.in_stagnation || tool.in_stuck) {
        return None;
    }
    let category = match (step.flags.has(Flags::SEEN_OUTCOME), step.flags.has(Flags::SEEN_CALL)) {
        (false, false) => Category::FullProgress,
        (false, true) => Category::WorldChanged,
        // Nine files written, each answered `ok` or in the same words, is work.
        (true, false) if step.flags.any(Flags(Flags::GENERIC.0 | Flags::NEW_CHANGE.0)) => Category::Neutral,
        (true, false) => Category::Stuck,
        (true, true) => Category::FullStagnation,
    };
    matrix.category = category;
    match category {
        Category::None | Category::FullProgress | Category::WorldChanged => (matrix.stagnation, matrix.stuck) = (0, 0),
        Category::Neutral => matrix.stagnation = 0,
        Category::Stuck => {
            if matrix.stuck == 0 {
                matrix.stuck_first = step.sequence;
            }
            matrix.stuck = matrix.stuck.saturating_add(1);
            matrix.stagnation = 0;
        }
        Category::FullStagnation => {
            if matrix.stagnation == 0 {
                matrix.stagnation_first = step.sequence;
                matrix.stagnation_fingerprint = step.fingerprint;
            }
            matrix.stagnation = matrix.stagnation.saturating_add(1);
            matrix.stuck = 0;
        }
    }
    let found = |settings: &ProgressMatrix, takes_part: bool, detector: Detector, streak: u32, first: u64| {
        let threshold = step.scaled(tool, settings.threshold);
        // A neutral step leaves the streak of `stuck` standing, but takes no part in it.
        (category != Category::Neutral && takes_part && settings.mode.is_on() && streak >= threshold).then(|| {
            let (identity, base) = match detector {
                Detector::Stagnation => (repeat_identity(matrix.stagnation_fingerprint), 0.7),
                _ => (loop_identity(Family::Outcome, &[step.outcome.0]), 0.5),
            };
            let mut finding = Finding::new(detector, settings.mode, identity, streak, threshold)
                .confident(base, 0.1)
                .blocking_at(step.scaled(tool, settings.block_at))
                .spanning(first, step.sequence);
            finding.category = category;
            finding
        })
    };
    let stagnation = found(stagnation, tool.in_stagnation, Detector::Stagnation, matrix.stagnation, matrix.stagnation_first);
    let stuck = found(stuck, tool.in_stuck, Detector::Stuck, matrix.stuck, matrix.stuck_first);
    match (stagnation, stuck) {
        (Some(first), Some(second)) if second.wants_block() && !first.wants_block() => Some(second),
        (first, second) => first.or(second),
    }
}
