//! Which calls got an agent nowhere: what `swarm_repeat` sums up with `count = "unproductive"`. The rule of `state_repeat` on work in
//! between holds here too: a swarm of agents that each edit and try again is at work.

use crate::detect::steps::step::{Flags, Step};
use crate::detect::{steps::evidence::Marks, steps::history::History, weights::news};

/// Whether a completed call brought its agent nothing: a failure of a call not made before or of one that failed alike, and a success that repeats a known call with a known
/// answer. What has few words, what waits and what was done since a change got somewhere.
#[must_use]
pub fn brought_nothing(history: &History, step: &Step) -> bool {
    if !step.is_evidence() {
        return false;
    }
    if step.flags.contains(Flags::RETRYABLE) {
        return meets_outage_again(history, step);
    }
    let mut before = news::since_message(history, step).take_while(|earlier| !earlier.evidence().marks.contains(Marks::CHANGE));
    // Most calls are made once.
    let is_alone = history.calls_in_ring(step.call) < 2;
    let equal = if is_alone { None } else { before.find(|earlier| earlier.call == step.call) };
    if !step.failed() {
        let is_little = step.evidence().marks.contains(Marks::LITTLE);
        return !is_little && !news::is_poll(step) && equal.is_some_and(|earlier| news::stands_still(step, earlier));
    }
    match equal {
        Some(earlier) => earlier.failed() && news::fails_alike(step, earlier),
        None => fails_for_all(history, step),
    }
}

/// Whether a failure is the first of its call in the ring, and not of a command line, which runs in its agent's own place.
fn fails_for_all(history: &History, step: &Step) -> bool {
    let is_local = step.flags.contains(Flags::SHELL) && !step.flags.contains(Flags::REMOTE);
    history.calls_in_ring(step.call) < 2 && !is_local
}

/// Whether the agent's last call of the same fingerprint, by which a swarm is counted, met an outage as well: one at that address, whatever it sent.
fn meets_outage_again(history: &History, step: &Step) -> bool {
    let floor = history.floor();
    let earlier = history.ring_back().skip_while(|later| later.sequence >= step.sequence);
    let mut counted = earlier.take_while(|earlier| earlier.sequence >= floor).filter(|earlier| {
        earlier.fingerprint == step.fingerprint && !earlier.flags.intersects(Flags::REFUSED | Flags::SAME_TURN)
    });
    counted.next().is_some_and(|earlier| earlier.flags.contains(Flags::RETRYABLE))
}
