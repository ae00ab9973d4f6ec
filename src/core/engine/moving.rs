//! Whether the answers behind a finding stand still. A number of eight digits may be an id, and is masked; it may also be the size of a file that
//! grows, and who looks at that makes progress. So answers that are only the same once they are masked bring a nudge, and no block. Nor do known
//! answers that are not the same, equal ones that are asked for as rarely as somebody asks who waits, receipts, and answers that nobody knows.

use crate::detect::{Finding, Flags, History, PATIENT_MS, Step, is_parallel};
use crate::policy::{Detector, Policy};

/// Calls of a round of somebody who waits: the wait, and what is looked at then.
const ROUND_CALLS_MAX: u32 = 3;

/// Whether one of the answers to the call of a finding, of as many as a block needs, has moved since the one before it. A streak is of several calls, and
/// each of them is looked at.
pub(super) fn answers_move(history: &History, finding: &Finding) -> bool {
    let Some(step) = history.get(finding.last).filter(|step| !step.flags.has(Flags::ARGS_ONLY)) else { return false };
    if finding.detector == Detector::Stagnation && answers_differ(history, finding, step) {
        return true;
    }
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

/// Whether two successes of the call in this streak differ: each is known from before, and a door that is open and closed is in no loop.
fn answers_differ(history: &History, finding: &Finding, step: &Step) -> bool {
    let mut successes =
        streak_back(history, finding, step).filter(|earlier| earlier.call == step.call && earlier.flags.has(Flags::OK));
    successes.next().is_some_and(|newest| successes.any(|earlier| newest.answers_otherwise(earlier)))
}

/// Whether a streak of known calls with known answers has come to one of its own again. Nine checks that are each made for the second time
/// are a second round: a cycle has to show that it goes on.
pub(super) fn comes_again(history: &History, finding: &Finding) -> bool {
    let Some(step) = history.get(finding.last) else { return true };
    streak_back(history, finding, step).skip(1).any(|earlier| earlier.call == step.call)
}

/// Whether something was changed since the call of a finding was made last: who checks again then has a reason.
pub(super) fn was_changed_since(history: &History, finding: &Finding) -> bool {
    let Some(step) = history.get(finding.last) else { return false };
    let mut since = history.complete_back_from(step).skip(1).take_while(|earlier| earlier.call != step.call);
    since.any(|earlier| earlier.flags.has(Flags::MUTATED))
}

fn streak_back<'a>(history: &'a History, finding: &'a Finding, step: &Step) -> impl Iterator<Item = &'a Step> {
    history.complete_back_from(step).take_while(|earlier| earlier.sequence >= finding.first)
}

/// Whether a streak is mostly of looks of somebody who waits: of all other calls it has fewer than a block needs, and of its own fewer than a
/// poll may make. Who looks at the log of a build five times and at `git status` once, again and again, is no worse than who looks at the log
/// alone; nor is who waits, and then looks at two things.
pub(super) fn is_mostly_waiting(history: &History, finding: &Finding, policy: &Policy) -> bool {
    let is_of_streaks = matches!(finding.detector, Detector::Stagnation | Detector::Stuck);
    let Some(step) = history.get(finding.last).filter(|_| is_of_streaks) else { return false };
    let deeds = || streak_back(history, finding, step).filter(|earlier| !earlier.flags.has(Flags::POLL)).count();
    finding.wants_block()
        && looks(history, finding, step) < most_of_a_poll(history, finding, step, policy)
        && deeds() < finding.block_at as usize
}

/// How often the call of a finding was made. A streak counts the steps of several calls, and who goes round makes each of them once; of one
/// whose beginning has left the ring, all steps count. A round of more calls than a wait and two looks is counted as one of three.
fn looks(history: &History, finding: &Finding, step: &Step) -> u32 {
    if finding.detector != Detector::Stagnation || history.get(finding.first).is_none() {
        return finding.count;
    }
    let equal = streak_back(history, finding, step).filter(|earlier| earlier.call == step.call).count() as u32;
    equal.max(finding.count / ROUND_CALLS_MAX)
}

/// Count at which the detector of a finding would block its call, were that made by a tool of class `poll`.
fn most_of_a_poll(history: &History, finding: &Finding, step: &Step, policy: &Policy) -> u32 {
    policy.tools.get(history.tool(step)).scaled(policy.detectors.block_at(finding.detector), true)
}

/// Whether a finding counts equal answers to equal calls.
const fn counts_equal(finding: &Finding) -> bool {
    matches!(finding.detector, Detector::ExactRepeat | Detector::OutcomeRepeat | Detector::Stagnation)
}

/// Whether who makes the call of a finding waits: its last equal calls, as many as a block needs, lie about a minute apart each, or more, and none
/// is known to have failed. A tool that nobody has named as a poll is blocked as late as one that somebody has. Where somebody pauses and then
/// looks at two gauges, each of them is one.
pub(super) fn is_patient(history: &History, finding: &Finding, policy: &Policy) -> bool {
    let Some(step) = history.get(finding.last).filter(|_| counts_equal(finding)) else { return false };
    let equal: Vec<&Step> =
        history.counted_back_from(step).filter(|earlier| earlier.call == step.call).take(finding.block_at as usize).collect();
    let made = || if pauses(history, &equal) { looks(history, finding, step) } else { finding.count };
    equal.len() > 1
        && !equal.iter().any(|step| step.failed())
        && equal.windows(2).all(|pair| matches!(pair, [later, earlier] if is_pause(later, earlier)))
        && made() < most_of_a_poll(history, finding, step, policy)
}

/// Whether somebody stood still about a minute, or longer, as often as these equal calls, newest first, were made again. Ten calls in turn take
/// a minute as well, and wait for nothing.
fn pauses(history: &History, equal: &[&Step]) -> bool {
    let [newest, .., oldest] = equal else { return false };
    let first = oldest.sequence;
    let steps = || history.counted_back_from(newest).take_while(move |earlier| earlier.sequence >= first);
    steps().zip(steps().skip(1)).filter(|(later, earlier)| is_pause(later, earlier)).count() + 1 >= equal.len()
}

const fn is_pause(later: &Step, earlier: &Step) -> bool {
    later.time.0.saturating_sub(earlier.time.0) >= PATIENT_MS
}

/// Whether all that came back to the calls of a finding are receipts, and they are fewer than a poll may make: a key that is pressed twelve times,
/// the arrow to the next month. What a deed has brought about shows elsewhere, if anywhere.
pub(super) fn brings_receipts(history: &History, finding: &Finding, policy: &Policy) -> bool {
    let Some(step) = history.get(finding.last).filter(|_| counts_equal(finding)) else { return false };
    let takes_part = |earlier: &&Step| finding.detector == Detector::Stagnation || earlier.call == step.call;
    let answered = || streak_back(history, finding, step).filter(takes_part);
    finding.count < most_of_a_poll(history, finding, step, policy) && answered().next().is_some() && answered().all(is_receipt)
}

/// Whether a call worked, and its answer says nothing. Who reads or tests asked for the answer, whatever it is; what writes the same again has
/// written it already.
const fn is_receipt(step: &Step) -> bool {
    let others = Flags(Flags::READ.0 | Flags::TEST.0 | Flags::MUTATES.0 | Flags::ARGS_ONLY.0);
    step.flags.has(Flags::RECEIPT) && !step.flags.any(others)
}

/// Whether a block of equal calls would rest on answers that nobody knows: too few are left without those that were made beside an equal one, and
/// without successes that came cut and with no word of how long they were, as of a log that may have grown. Where answers do not matter, they
/// need not be known.
pub(super) fn is_unproven(history: &History, finding: &Finding, policy: &Policy) -> bool {
    let asks = finding.detector == Detector::ExactRepeat && policy.detectors.exact_repeat.result_aware;
    let Some(step) = history.get(finding.last).filter(|step| asks && !step.flags.has(Flags::ARGS_ONLY)) else { return false };
    let (first, call) = (finding.first, step.call);
    let equal = || {
        let counted = history.counted_back_from(step).take_while(move |earlier| earlier.sequence >= first);
        counted.filter(move |earlier| earlier.call == call)
    };
    let before = equal().skip(1).map(Some).chain([None]);
    let proves_nothing = |(call, before): &(&Step, Option<&Step>)| {
        call.is_of_unknown_size() || before.is_some_and(|before| is_beside(call, before))
    };
    let unknown = equal().zip(before).filter(proves_nothing).count() as u32;
    finding.count < most_of_a_poll(history, finding, step, policy) && finding.count.saturating_sub(unknown) < finding.block_at
}

/// Whether a call was made in one reply with an equal one, as far as can be seen: at the same moment, and both are still open.
const fn is_beside(call: &Step, before: &Step) -> bool {
    call.flags.has(Flags::OPEN) && before.flags.has(Flags::OPEN) && is_parallel(call, before)
}
