//! `exact_repeat`: the same call again (HackEurope26 counts in a window, attocode in a row). Page `detection`.
//!
//! Example: `Bash {"command":"cargo test"}` three times with one answer. Limits: equal calls written differently (`ls src`,
//! `ls ./src`) differ; only `stuck` may see them.

use crate::detect::finding::{Finding, repeat_identity};
use crate::detect::history::History;
use crate::detect::step::{Flags, Step};
use crate::detect::streaks::Run;
use crate::identity::{Hash64, Hash128};
use crate::policy::{Detector, Evaluate, ExactRepeat, RepeatCount, ToolPolicy};

/// Takes a counted call into the run at the tail.
pub fn advance(run: &mut Run, hash: Hash128, sequence: u64) {
    if run.hash == hash && run.length > 0 {
        run.length = run.length.saturating_add(1);
        run.same_answer = run.same_answer.saturating_add(1);
    } else {
        *run = Run { hash, length: 1, same_answer: 1, outcome: Hash64::NONE, first: sequence, same_first: sequence };
    }
}

/// The run as the ring has it: the equal counted steps at its tail. For when a step turned out not to count after all.
pub fn rebuild(run: &mut Run, history: &History) {
    *run = Run::default();
    let Some(newest) = history.counted_back().next() else { return };
    run.hash = newest.call;
    for step in history.counted_back().take_while(|step| step.call == run.hash) {
        run.length += 1;
        run.first = step.sequence;
    }
    if newest.flags.has(Flags::ARGS_ONLY) {
        (run.same_answer, run.same_first) = (run.length, run.first);
    } else {
        rewalk(run, history);
    }
}

/// Takes an observed outcome into the run: another answer ends the look back (`result_aware`).
pub fn answered(run: &mut Run, history: &History, step: &Step) {
    if run.hash != step.call || step.sequence < run.first || step.flags.has(Flags::ARGS_ONLY) {
        return;
    }
    if step.flags.has(Flags::CUT) {
        let is_other = |other: &&Step| other.flags.has(Flags::CUT) && other.sequence != step.sequence;
        if in_run(run, history).find(is_other).is_some_and(|other| other.answers_otherwise(step)) {
            rewalk(run, history);
        }
    } else if !step.outcome.is_some() {
        // Not known, or not asked for.
    } else if !run.outcome.is_some() {
        run.outcome = step.outcome;
    } else if run.outcome != step.outcome {
        rewalk(run, history);
    }
}

/// The steps of the run that the ring holds, newest first.
fn in_run<'a>(run: &Run, history: &'a History) -> impl Iterator<Item = &'a Step> + use<'a> {
    let (first, hash) = (run.first, run.hash);
    history.counted_back().take_while(move |step| step.sequence >= first && step.call == hash)
}

/// The look back of `result_aware`, from the ring: with the newest observed outcome met, stop before the first other one. What is left
/// of cut answers is no outcome, but ends it likewise where it differs.
fn rewalk(run: &mut Run, history: &History) {
    let mut newest = Newest::default();
    let (mut count, mut first) = (0, run.same_first);
    for step in in_run(run, history) {
        if newest.ends_before(step) {
            break;
        }
        count += 1;
        first = step.sequence;
    }
    run.outcome = newest.whole.map_or(Hash64::NONE, |step| step.outcome);
    (run.same_answer, run.same_first) = (count, first);
}

/// The newest answers that a look back has met, a whole one and a cut one.
#[derive(Default)]
struct Newest<'a> {
    whole: Option<&'a Step>,
    cut: Option<&'a Step>,
}

impl<'a> Newest<'a> {
    /// Takes a step met on the way back; whether it was answered otherwise than those after it.
    fn ends_before(&mut self, step: &'a Step) -> bool {
        let is_cut = step.flags.has(Flags::CUT);
        if !is_cut && !step.outcome.is_some() {
            return false;
        }
        step.answers_otherwise((if is_cut { &mut self.cut } else { &mut self.whole }).get_or_insert(step))
    }
}

/// Whether the newest counted call repeats.
#[must_use]
pub fn observe(settings: &ExactRepeat, tool: &ToolPolicy, run: &Run, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    let block_at = step.scaled(tool, settings.block_at);
    match settings.count {
        RepeatCount::Run => {
            let (count, first) = if settings.result_aware { (run.same_answer, run.same_first) } else { (run.length, run.first) };
            (run.hash == step.call && count >= threshold)
                .then(|| finding(settings, step, count, threshold).blocking_at(block_at).spanning(first, step.sequence))
        }
        RepeatCount::Window => in_window(settings, tool, history, step),
    }
}

/// That of a run or of a window: the tiers grow with the count.
pub(super) fn finding(settings: &ExactRepeat, step: &Step, count: u32, threshold: u32) -> Finding {
    let mut finding = Finding::new(Detector::ExactRepeat, settings.mode, repeat_identity(step.fingerprint), count, threshold)
        .confident(0.7, 0.05);
    finding.tier = tier(count, threshold);
    finding
}

/// Tiers relative to the threshold: `t` → 1, `t+1`, `t+2` → 2, from `t+3` on 3.
#[must_use]
pub const fn tier(count: u32, threshold: u32) -> u8 {
    match count.saturating_sub(threshold) {
        0 => 1,
        1 | 2 => 2,
        _ => 3,
    }
}

/// HackEurope26: calls equal to the newest among the last `window_steps`; below the threshold the largest such number of any
/// hash, which is not fresh.
fn in_window(settings: &ExactRepeat, tool: &ToolPolicy, history: &History, step: &Step) -> Option<Finding> {
    let threshold = step.scaled(tool, settings.threshold);
    let window = || history.counted_back().take(settings.window_steps as usize);
    // The ring holds at least as many of a call as the window: most calls are new to it, and the window need not be walked.
    let may_have_enough = |step: &Step| history.calls_in_ring(step.call) >= threshold;
    if !is_skipped(settings, step) && may_have_enough(step) {
        let (count, first) = count_equal(settings, window(), step);
        if count >= threshold {
            return Some(
                finding(settings, step, count, threshold)
                    .blocking_at(step.scaled(tool, settings.block_at))
                    .within(u64::from(settings.window_steps))
                    .spanning(first, step.sequence),
            );
        }
    }
    // Judged once per turn, all calls of the turn are current, and only the last of them was asked for.
    let by_turn = settings.evaluate == Evaluate::Turn && step.turn != 0;
    // Judged one by one, a hash has enough in the window only if it had enough when it was called last: that step has fired.
    let any_fired = || history.may_have_fired() && window().any(|earlier| earlier.has_fired(Detector::ExactRepeat));
    if !by_turn && !any_fired() {
        return None;
    }
    let mut best: Option<(u32, u64, &Step)> = None;
    for candidate in window().filter(|candidate| !is_skipped(settings, candidate) && may_have_enough(candidate)) {
        let (count, first) = count_equal(settings, window(), candidate);
        if best.is_none_or(|(most, ..)| count > most) {
            best = Some((count, first, candidate));
        }
    }
    let (count, first, candidate) = best.filter(|(count, ..)| *count >= threshold)?;
    let mut finding = finding(settings, candidate, count, threshold)
        .blocking_at(step.scaled(tool, settings.block_at))
        .within(u64::from(settings.window_steps))
        .spanning(first, candidate.sequence);
    finding.is_fresh = by_turn && candidate.turn == step.turn;
    Some(finding)
}

fn count_equal<'a>(settings: &ExactRepeat, window: impl Iterator<Item = &'a Step>, step: &Step) -> (u32, u64) {
    let mut newest = Newest::default();
    let mut count = 0;
    let mut first = step.sequence;
    let hard = step.failed() || step.flags.has(Flags::TEST);
    for earlier in window {
        // Edit, then re-run, is work: a mutation by another call ends the look back of a failing call or a test run.
        if hard && earlier.flags.has(Flags::MUTATED) && earlier.call != step.call {
            break;
        }
        if earlier.call != step.call {
            continue;
        }
        if settings.result_aware && !earlier.flags.has(Flags::ARGS_ONLY) && newest.ends_before(earlier) {
            break;
        }
        count += 1;
        first = earlier.sequence;
    }
    (count, first)
}

const fn is_skipped(settings: &ExactRepeat, step: &Step) -> bool {
    (settings.skip_poll && step.flags.has(Flags::POLL))
        || (settings.skip_read && step.flags.has(Flags::READ))
        || (settings.skip_mutates && step.flags.has(Flags::MUTATES))
        || (settings.skip_normal && !step.flags.any(Flags(Flags::POLL.0 | Flags::READ.0 | Flags::MUTATES.0)))
}
