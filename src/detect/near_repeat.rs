//! `near_repeat`: the same primary arguments again, shell file reads folded (attocode). `detectors.md` 3.2.
//!
//! Example: `read_file` on one path with `encoding`, `timeout`, `lines` added in turn. Limits: `offset` and `limit` are primary,
//! so paging is work; an agent that really rereads with another optional argument on purpose is told, never blocked by default.

use crate::detect::exact_repeat::tier;
use crate::detect::finding::Finding;
use crate::detect::finding::repeat_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::detect::streaks::Run;
use crate::policy::Detector;
use crate::policy::NearRepeat;
use crate::policy::ToolPolicy;

/// Takes an observed outcome into the run: a call that already occurred in it with another answer restarts it.
pub fn answered(run: &mut Run, history: &History, step: &Step) {
    if run.hash != step.fingerprint || run.length < 2 || step.sequence < run.first || !step.outcome.is_some() {
        return;
    }
    let moved = history
        .counted_back()
        .take_while(|earlier| earlier.sequence >= run.first && earlier.fingerprint == run.hash)
        .any(|earlier| earlier.call == step.call && earlier.outcome.is_some() && earlier.outcome != step.outcome);
    if moved && !step.flags.has(Flags::ARGS_ONLY) {
        *run = Run { length: 1, same_answer: 1, first: step.sequence, same_first: step.sequence, ..*run };
    }
}

/// Whether the newest counted call nearly repeats. Only asked where `exact_repeat` has no finding.
#[must_use]
pub fn observe(settings: &NearRepeat, tool: &ToolPolicy, run: &Run, exact: &Run, step: &Step) -> Option<Finding> {
    let threshold = tool.scaled(settings.threshold);
    if run.hash != step.fingerprint || run.length < threshold {
        return None;
    }
    let count = if exact.hash == step.call { run.length.max(exact.same_answer) } else { run.length };
    let mut finding = Finding::new(Detector::NearRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.5, 0.1)
        .blocking_at(tool.scaled(settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = tier(count, threshold.saturating_sub(1));
    Some(finding)
}
