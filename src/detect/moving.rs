//! Whether the answers behind a finding stand still. A number of eight digits may be an id, and is masked; it may also be the size of a file that
//! grows, and who looks at that makes progress. So answers that are only the same once they are masked bring a nudge, and no block.

use crate::detect::finding::Finding;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::policy::Detector;

/// Whether one of the answers to the call of a finding, of as many as a block needs, has moved since the one before it. A streak is of several calls, and
/// each of them is looked at.
#[must_use]
pub fn answers_move(history: &History, finding: &Finding) -> bool {
    let Some(step) = history.get(finding.last).filter(|step| !step.flags.has(Flags::ARGS_ONLY)) else { return false };
    if matches!(finding.detector, Detector::Stagnation | Detector::Stuck) {
        return history.complete_back_from(step).take(finding.block_at as usize).any(|later| has_moved(history, later));
    }
    let mut later: Option<&Step> = None;
    let equal_calls = history.complete_back_from(step).filter(|earlier| earlier.call == step.call);
    for earlier in equal_calls.take(finding.block_at as usize) {
        match later {
            Some(later) if later.moved_since(earlier) => return true,
            Some(later) if later.outcome != earlier.outcome => return false,
            _ => later = Some(earlier),
        }
    }
    false
}

/// Whether an answer has moved since that to the equal call before it.
fn has_moved(history: &History, later: &Step) -> bool {
    let mut earlier = history.complete_back_from(later).skip(1);
    later.flags.residue() != 0
        && earlier.find(|earlier| earlier.call == later.call).is_some_and(|earlier| later.moved_since(earlier))
}
