//! The progress matrix of `stagnation` and `stuck`: approach × outcome, each seen before or new (IronCurtain). *Seen* means held by the ring.

use crate::detect::finding::{Family, Finding, loop_identity, repeat_identity};
use crate::detect::reference::{stagnation, stuck};
use crate::detect::rule::{CountSettings, Rule as _};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::{reference::category::Category, steps::tally::Tally};
use crate::identity::{Hash64, Hash128};
use crate::setting::ToolPolicy;

/// The progress matrix (IronCurtain): two rows of steps, of which at least one is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Steps in a row with a seen approach and a seen outcome.
    pub stagnation: Tally,
    /// Steps in a row with a new approach and a seen outcome.
    pub stuck: Tally,
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
    let category = match (step.flags.contains(Flags::SEEN_OUTCOME), step.flags.contains(Flags::SEEN_CALL)) {
        (false, false) => Category::FullProgress,
        (false, true) => Category::WorldChanged,
        (true, false) => Category::Stuck,
        (true, true) => Category::FullStagnation,
    };
    matrix.category = category;
    match category {
        Category::None | Category::FullProgress | Category::WorldChanged => {
            (matrix.stagnation.count, matrix.stuck.count) = (0, 0);
        }
        Category::Stuck => {
            matrix.stuck.extend(step.sequence);
            matrix.stagnation.count = 0;
        }
        Category::FullStagnation => {
            if matrix.stagnation.count == 0 {
                matrix.stagnation_fingerprint = step.fingerprint;
            }
            matrix.stagnation.extend(step.sequence);
            matrix.stuck.count = 0;
        }
    }
    let found = |counts: CountSettings, streak: Tally, identity: &dyn Fn() -> Hash64, confidence: f64| {
        let finding = counts.scaled(step, tool).finding(streak, step.sequence, identity).filter(|_| counts.mode.is_on())?;
        Some(Finding { category, ..finding.confident(confidence, 0.1) })
    };
    let of_calls = || repeat_identity(matrix.stagnation_fingerprint);
    let of_outcome = || loop_identity(Family::Outcome, &[step.outcome.0]);
    let stagnation = found(stagnation.counts(), matrix.stagnation, &of_calls, 0.7).filter(|_| tool.in_stagnation);
    let stuck = found(stuck.counts(), matrix.stuck, &of_outcome, 0.5).filter(|_| tool.in_stuck);
    match (stagnation, stuck) {
        (Some(first), Some(second)) if second.wants_block() && !first.wants_block() => Some(second),
        (first, second) => first.or(second),
    }
}
