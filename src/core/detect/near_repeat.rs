//! `near_repeat`: the same target again, shell file reads folded (attocode). Page `detection`.
//!
//! Example: `read_file` on one path with `encoding`, `timeout`, `lines` added in turn. Limits: `offset` and `limit` are kept beside a
//! target, so paging is work; an agent that really rereads with another optional argument on purpose is told, never blocked by
//! default.

use std::collections::BTreeMap;

use crate::detect::exact_repeat::tier;
use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::Run;
use crate::policy::{Detector, NearRepeat, ToolPolicy};

/// Takes an observed outcome into the run; whether that restarts it. It does for a change that worked and had not been made before,
/// and with `result_aware` for a call that already occurred in the run with another answer.
pub fn answered(run: &mut Run, history: &History, step: &Step, result_aware: bool) -> bool {
    if run.hash != step.fingerprint || run.length < 2 || step.sequence < run.first {
        return false;
    }
    let has_moved = || {
        let (first, hash) = (run.first, run.hash);
        let mut in_run = history.counted_back().take_while(|earlier| earlier.sequence >= first && earlier.fingerprint == hash);
        in_run.any(|earlier| earlier.call == step.call && earlier.answers_otherwise(step))
    };
    let restarts = step.flags.has(Flags::NEW_CHANGE)
        || (result_aware && !step.flags.has(Flags::ARGS_ONLY) && step.has_answer() && has_moved());
    if restarts {
        *run = Run { length: 1, same_answer: 1, first: step.sequence, same_first: step.sequence, ..*run };
    }
    restarts
}

/// The run as the ring has it: back to the last call that restarted it.
pub fn rebuild(run: &mut Run, history: &History, result_aware: bool) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = newest.fingerprint;
    // By call, cut ones apart: the step in the run that was answered next.
    let mut answers: BTreeMap<(u128, bool), &Step> = BTreeMap::new();
    let mut since = None;
    for step in history.counted_back().take_while(|step| step.fingerprint == run.hash) {
        if result_aware && step.has_answer() && !step.flags.has(Flags::ARGS_ONLY) {
            let later = answers.insert((step.call.0, step.flags.has(Flags::CUT)), step);
            if let Some(later) = later.filter(|later| later.answers_otherwise(step)) {
                since = Some(later.sequence);
                break;
            }
        }
        run.first = step.sequence;
        if step.flags.has(Flags::NEW_CHANGE) {
            break;
        }
    }
    run.first = since.unwrap_or(run.first);
    run.length = history.counted_back().take_while(|step| step.sequence >= run.first).count() as u32;
    (run.same_answer, run.same_first) = (run.length, run.first);
}

/// Whether the newest counted call nearly repeats. Only asked where `exact_repeat` has no finding.
#[must_use]
pub fn observe(settings: &NearRepeat, tool: &ToolPolicy, run: &Run, exact: &Run, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    if run.hash != step.fingerprint || run.length < threshold {
        return None;
    }
    let count = if exact.hash == step.call { run.length.max(exact.same_answer) } else { run.length };
    let mut finding = Finding::new(Detector::NearRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.5, 0.1)
        .blocking_at(step.scaled(tool, settings.block_at))
        .spanning(run.first, step.sequence);
    finding.tier = tier(count, threshold.saturating_sub(1));
    Some(finding)
}
