//! Which calls got an agent nowhere: what `swarm_repeat` sums up with `count = "unproductive"`. The rule of `state_repeat` on work in
//! between holds here too: a swarm of agents that each edit and try again is at work.

use crate::detect::evidence::Marks;
use crate::detect::history::History;
use crate::detect::news;
use crate::detect::step::{Flags, Step};

/// Whether a completed call, the newest of its kind or not, got its agent nowhere.
///
/// - A failure did, unless its agent had called the same before and changed something or reported progress since, or is told something
///   new now. A command line runs in its agent's own place: where it fails for the first time there, that says nothing about the others,
///   unless it names a URL.
/// - A success did where its answer, from the same call before, was known, and nothing new came in between. What answers `ok` to
///   everything, what waits, and what moved but for a mask says nothing of the kind.
/// - An outage did from the second on that one agent meets in a row: who is let in at the second try is not stuck.
/// - A second identical call of one turn is no evidence of its own.
#[must_use]
pub fn got_nowhere(history: &History, step: &Step) -> bool {
    let flags = step.flags;
    if !step.is_evidence() {
        return false;
    }
    if flags.has(Flags::RETRYABLE) {
        return meets_outage_again(history, step);
    }
    if !flags.has(Flags::SEEN_CALL) {
        return step.failed() && fails_for_all(history, step);
    }
    let is_new = step.outcome.is_some() && !flags.has(Flags::SEEN_OUTCOME);
    let says_nothing = !step.outcome.is_some() || flags.any(Flags(Flags::GENERIC.0 | Flags::POLL.0));
    if !step.failed() && (is_new || says_nothing) {
        return false;
    }
    for earlier in history.complete_back_from(step).skip(1) {
        if earlier.call == step.call {
            return if step.failed() { !is_new || fails_alike(step, earlier) } else { !step.moved_since(earlier) };
        }
        let is_novel = !earlier.flags.any(Flags(Flags::SEEN_CALL.0 | Flags::SEEN_OUTCOME.0));
        if earlier.flags.has(Flags::MUTATED) || (is_novel && !step.failed()) {
            return false;
        }
    }
    step.failed() && !is_new
}

/// The same by news: a failure of a call not made before or of one that failed alike, and a success that repeats a known call with a known
/// answer. What says little, what waits and what was done since a change got somewhere.
#[must_use]
pub fn brought_nothing(history: &History, step: &Step) -> bool {
    if !step.is_evidence() {
        return false;
    }
    if step.flags.has(Flags::RETRYABLE) {
        return meets_outage_again(history, step);
    }
    let mut before = news::since_message(history, step).take_while(|earlier| !earlier.evidence().marks.has(Marks::CHANGE));
    let equal = before.find(|earlier| earlier.call == step.call);
    if !step.failed() {
        let says_little = step.evidence().marks.has(Marks::LITTLE);
        return !says_little && !news::is_poll(step) && equal.is_some_and(|earlier| news::stands_still(step, earlier));
    }
    match equal {
        Some(earlier) => earlier.failed() && news::fails_alike(step, earlier),
        None => fails_for_all(history, step),
    }
}

/// Whether a failure is the first of its call in the ring, and not of a command line, which runs in its agent's own place.
fn fails_for_all(history: &History, step: &Step) -> bool {
    let is_local = step.flags.has(Flags::SHELL) && !step.flags.has(Flags::REMOTE);
    history.calls_in_ring(step.call) < 2 && !is_local
}

/// Whether two failures begin alike, as `dead_end` compares them: ports and addresses further on are no news. Of tests they are.
const fn fails_alike(step: &Step, earlier: &Step) -> bool {
    step.error.is_some() && step.error.0 == earlier.error.0 && !step.flags.has(Flags::TEST)
}

/// Whether the agent's last call of the same fingerprint, by which a swarm is counted, met an outage as well: one at that address, whatever it sent.
fn meets_outage_again(history: &History, step: &Step) -> bool {
    let floor = history.floor();
    let earlier = history.ring_back().skip_while(|later| later.sequence >= step.sequence);
    let mut counted = earlier.take_while(|earlier| earlier.sequence >= floor).filter(|earlier| {
        earlier.fingerprint == step.fingerprint && !earlier.flags.any(Flags(Flags::REFUSED.0 | Flags::SAME_TURN.0))
    });
    counted.next().is_some_and(|earlier| earlier.flags.has(Flags::RETRYABLE))
}
