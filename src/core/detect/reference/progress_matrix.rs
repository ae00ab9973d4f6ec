//! The progress matrix of `stagnation` and `stuck`: approach × outcome, each seen before or new (IronCurtain). *Seen* means held by the ring.

use crate::detect::detector::Detector;
use crate::detect::finding::{Family, Finding, loop_identity, repeat_identity};
use crate::detect::reference::category::Category;
use crate::detect::reference::{stagnation, stuck};
use crate::detect::steps::step::{Flags, Step};
use crate::identity::Hash128;
use crate::setting::{Mode, ToolPolicy};

/// The progress matrix (IronCurtain).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Seen approach, seen outcome: in a row.
    pub stagnation: u32,
    /// New approach, seen outcome: in a row.
    pub stuck: u32,
    /// Step that began the stagnation streak.
    pub stagnation_first: u64,
    /// Step that began the stuck streak.
    pub stuck_first: u64,
    /// Fingerprint of the step that began the stagnation streak.
    pub stagnation_fingerprint: Hash128,
    /// Class of the last step.
    pub category: Category,
}

/// Classes the completed step and moves both streaks. At most one finding: a stagnation block, a stuck block, stagnation, stuck.
pub fn observe(
    stagnation: &stagnation::Settings,
    stuck: &stuck::Settings,
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
        (true, false) => Category::Stuck,
        (true, true) => Category::FullStagnation,
    };
    matrix.category = category;
    match category {
        Category::None | Category::FullProgress | Category::WorldChanged => (matrix.stagnation, matrix.stuck) = (0, 0),
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
    let found = |detector: Detector, takes_part: bool, (mode, threshold, block_at): (Mode, u32, u32), streak: u32, first: u64| {
        let threshold = step.scaled(tool, threshold);
        (takes_part && mode.is_on() && streak >= threshold).then(|| {
            let (identity, base) = match detector {
                Detector::Stagnation => (repeat_identity(matrix.stagnation_fingerprint), 0.7),
                _ => (loop_identity(Family::Outcome, &[step.outcome.0]), 0.5),
            };
            let mut finding = Finding::new(detector, mode, identity, streak, threshold)
                .confident(base, 0.1)
                .blocking_at(step.scaled(tool, block_at))
                .spanning(first, step.sequence);
            finding.category = category;
            finding
        })
    };
    let stagnation = found(
        Detector::Stagnation,
        tool.in_stagnation,
        (stagnation.mode, stagnation.threshold, stagnation.block_at),
        matrix.stagnation,
        matrix.stagnation_first,
    );
    let stuck =
        found(Detector::Stuck, tool.in_stuck, (stuck.mode, stuck.threshold, stuck.block_at), matrix.stuck, matrix.stuck_first);
    match (stagnation, stuck) {
        (Some(first), Some(second)) if second.wants_block() && !first.wants_block() => Some(second),
        (first, second) => first.or(second),
    }
}
