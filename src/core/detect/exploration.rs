//! `exploration`: reading file after file, changing none (attocode's saturation). Page `detection`.
//!
//! Example: ten files read, no edit. Limits: a reviewer's whole job looks like this, hence off by default.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::Explored;
use crate::policy::{Detector, Exploration};

/// Takes a counted call: an edit ends it, a read of a new target counts, and so does its turn.
pub fn observe(settings: &Exploration, explored: &mut Explored, history: &History, step: &Step) -> Option<Finding> {
    if explored.has_edited || step.flags.has(Flags::MUTATES) {
        explored.has_edited = true;
        return None;
    }
    if step.turn == 0 || step.turn != explored.last_turn {
        explored.last_turn = step.turn;
        explored.turns = explored.turns.saturating_add(1);
        explored.slice.rotate_right(1);
        if let Some(newest) = explored.slice.first_mut() {
            *newest = 0;
        }
    }
    let is_new = step.read_target.is_some()
        && !history.counted_back().any(|earlier| earlier.sequence < step.sequence && earlier.read_target == step.read_target);
    if is_new {
        if explored.files == 0 {
            explored.first = step.sequence;
        }
        explored.files = explored.files.saturating_add(1);
        if let Some(newest) = explored.slice.first_mut() {
            *newest = newest.saturating_add(1);
        }
    }
    let in_slice: u32 = explored.slice.iter().take(settings.slice_turns as usize).map(|files| u32::from(*files)).sum();
    let is_saturated = explored.turns >= settings.turns && in_slice < settings.slice_files;
    (explored.files >= settings.threshold || (is_saturated && explored.files > 0)).then(|| {
        let mut finding = Finding::new(
            Detector::Exploration,
            settings.mode,
            loop_identity(Family::Explore, &[]),
            explored.files,
            settings.threshold,
        )
        .spanning(explored.first, step.sequence);
        finding.confidence = 0.4;
        finding
    })
}
