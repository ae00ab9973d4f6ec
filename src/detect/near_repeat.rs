//! `near_repeat`: the same primary arguments again, shell file reads folded (attocode). `detectors.md` 3.2.
//!
//! Example: `read_file` on one path with `encoding`, `timeout`, `lines` added in turn. Limits: `offset` and `limit` are primary,
//! so paging is work; an agent that really rereads with another optional argument on purpose is told, never blocked by default.

use std::collections::BTreeMap;

use crate::detect::exact_repeat::tier;
use crate::detect::finding::Finding;
use crate::detect::finding::repeat_identity;
use crate::detect::history::History;
use crate::detect::step::Flags;
use crate::detect::step::Step;
use crate::detect::streaks::Run;
use crate::identity::Hash64;
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

/// The run as the ring has it: back to the last call that had already occurred in it with another answer.
pub fn rebuild(run: &mut Run, history: &History, result_aware: bool) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = newest.fingerprint;
    // By call: its next answer in the run, and where.
    let mut answers: BTreeMap<u128, (Hash64, u64)> = BTreeMap::new();
    let mut since = None;
    for step in history.counted_back().take_while(|step| step.fingerprint == run.hash) {
        if result_aware && step.outcome.is_some() && !step.flags.has(Flags::ARGS_ONLY) {
            if let Some((_, later)) = answers.get(&step.call.0).filter(|(outcome, _)| *outcome != step.outcome) {
                since = Some(*later);
                break;
            }
            answers.insert(step.call.0, (step.outcome, step.sequence));
        }
        run.first = step.sequence;
    }
    run.first = since.unwrap_or(run.first);
    run.length = history.counted_back().take_while(|step| step.sequence >= run.first).count() as u32;
    (run.same_answer, run.same_first) = (run.length, run.first);
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
