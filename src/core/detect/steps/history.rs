//! The ring of steps and the questions it answers. Every detector reads this one history; none keeps a copy.

use std::collections::VecDeque;

use crate::detect::steps::remembered::{COMPLETED_MIN, Derived, FEW_STEPS, MEMORY_STEPS, Remembered, SEQUENCE_MAX};
use crate::detect::steps::step::{Flags, Step};
use crate::detect::{detector::Detector, steps::evidence::Evidence, steps::index::FingerprintIndex, steps::names::ToolNames};
use crate::identity::{Hash64, Hash128};

/// The steps of one session, newest last; at most `capacity`.
#[derive(Debug, Clone, Default)]
pub struct History {
    steps: VecDeque<Step>,
    capacity: usize,
    /// Sequence of the next step.
    next_sequence: u64,
    /// Steps before this one are not seen by any count but `call_rate`'s: a reset, a person, progress.
    floor: u64,
    names: ToolNames,
    /// Number of steps that are open.
    open: usize,
    /// Newest step with a finding, whatever became of it since.
    last_fired: Option<u64>,
    /// Calls and event ids in the whole ring.
    ring: FingerprintIndex,
    /// Calls and outcomes of counted, complete steps from the floor on: what has been *seen*.
    seen: FingerprintIndex,
    /// States of complete steps from the floor on.
    states: FingerprintIndex,
    /// What the remembered steps hold; none of a few, nor of those that were just loaded.
    remembered: Derived,
    /// Steps that have completed since the session was loaded.
    completed: u8,
    /// Bytes that the steps hold beside themselves.
    step_bytes: usize,
}

impl History {
    /// An empty history of at most `capacity` steps.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), ..Self::default() }
    }

    /// A history from stored steps, oldest first.
    #[must_use]
    pub fn restored(capacity: usize, next_sequence: u64, floor: u64, steps: impl IntoIterator<Item = (Step, Box<str>)>) -> Self {
        let mut history = Self { capacity: capacity.max(1), next_sequence, floor, ..Self::default() };
        for (mut step, tool) in steps {
            step.tool = history.names.take(&tool);
            step.token_bits = step.tokens.bits();
            if step.fired != 0 {
                history.last_fired = Some(step.sequence);
            }
            history.index(&step, true);
            history.step_bytes += bytes_of(&step);
            history.steps.push_back(step);
        }
        history
    }

    /// Takes a new step; its sequence and tool are set here. The oldest leaves when the ring is full: then true.
    pub fn push(&mut self, mut step: Step, tool: &str) -> bool {
        let wrapped = self.steps.len() >= self.capacity;
        while self.steps.len() >= self.capacity {
            let Some(oldest) = self.steps.pop_front() else { break };
            self.index(&oldest, false);
            self.names.release(oldest.tool);
            self.step_bytes -= bytes_of(&oldest);
        }
        step.sequence = self.next_sequence;
        self.next_sequence += 1;
        step.tool = self.names.take(tool);
        self.index(&step, true);
        self.step_bytes += bytes_of(&step);
        self.steps.push_back(step);
        wrapped
    }

    /// Changes a step in place, keeping the indexes right. `None` if it is not in the ring.
    pub fn update<R>(&mut self, sequence: u64, change: impl FnOnce(&mut Step) -> R) -> Option<R> {
        let at = self.position(sequence)?;
        let step = self.steps.get_mut(at)?;
        let (before, was_evidence, bytes) = (Indexed::of(step), step.is_evidence(), bytes_of(step));
        let answer = change(step);
        let (after, is_evidence) = (Indexed::of(step), step.is_evidence());
        self.step_bytes = self.step_bytes + bytes_of(step) - bytes;
        if was_evidence != is_evidence
            && let Some(remembered) = &mut self.remembered.0
            && !(is_evidence && remembered.expect(sequence))
        {
            // It is not made for what happens hardly ever.
            self.remembered.0 = None;
        }
        self.open = self.open + usize::from(after.is_open) - usize::from(before.is_open);
        // Most changes bring one hash; what stays the same is left alone.
        for (old, new) in before.ring.into_iter().zip(after.ring) {
            if old != new {
                self.ring.remove(old);
                self.ring.insert(new);
            }
        }
        if sequence >= self.floor && before.seen != after.seen {
            self.index_seen(&before, false);
            self.index_seen(&after, true);
        }
        Some(answer)
    }

    /// A step has completed and was measured: later ones are compared with it.
    pub fn remember(&mut self, sequence: u64) {
        let Some(step) = self.position(sequence).and_then(|at| self.steps.get(at)).filter(|step| step.is_evidence()) else {
            return;
        };
        if sequence >= SEQUENCE_MAX {
            self.remembered.0 = None;
            return;
        }
        let steps = &self.steps;
        let evidence = || steps.iter().rev().filter(|step| step.is_evidence());
        let oldest = || evidence().take(MEMORY_STEPS).last().map_or(0, |step| step.sequence);
        if let Some(remembered) = &mut self.remembered.0 {
            remembered.take(step, oldest);
            return;
        }
        self.completed = self.completed.saturating_add(1);
        if self.completed >= COMPLETED_MIN && steps.len() > FEW_STEPS && evidence().nth(FEW_STEPS).is_some() {
            let mut remembered = Box::<Remembered>::default();
            evidence().take(MEMORY_STEPS).for_each(|step| remembered.take(step, oldest));
            self.remembered.0 = Some(remembered);
        }
    }

    /// What the steps before a completed one hold, where that is indexed: not in a short session, nor for an answer that came after those
    /// of later steps.
    #[must_use]
    pub fn remembered_before(&self, step: &Step) -> Option<&Remembered> {
        self.remembered.0.as_deref().filter(|remembered| remembered.is_before(step.sequence))
    }

    /// Notes a finding at a step; touches no index.
    pub fn fire(&mut self, sequence: u64, detector: Detector) {
        if let Some(step) = self.position(sequence).and_then(|at| self.steps.get_mut(at)) {
            step.fire(detector);
            self.last_fired = self.last_fired.max(Some(sequence));
        }
    }

    /// Whether a counted step may have a finding: false is certain, true is to be looked at.
    #[must_use]
    pub fn may_have_fired(&self) -> bool {
        self.last_fired.is_some_and(|sequence| sequence >= self.floor)
    }

    /// Nothing earlier is seen again (but by `call_rate`, and redeliveries are still known).
    pub fn raise_floor(&mut self) {
        self.floor = self.next_sequence;
        self.seen.clear();
        self.states.clear();
    }

    fn index(&mut self, step: &Step, on: bool) {
        let indexed = Indexed::of(step);
        if on {
            self.open += usize::from(indexed.is_open);
            indexed.ring.into_iter().for_each(|hash| self.ring.insert(hash));
        } else {
            self.open -= usize::from(indexed.is_open);
            indexed.ring.into_iter().for_each(|hash| self.ring.remove(hash));
        }
        if step.sequence >= self.floor {
            self.index_seen(&indexed, on);
        }
    }

    fn index_seen(&mut self, indexed: &Indexed, on: bool) {
        let Some([call, outcome, state]) = indexed.seen else { return };
        if on {
            self.seen.insert(call);
            self.seen.insert(outcome);
            self.states.insert(state);
        } else {
            self.seen.remove(call);
            self.seen.remove(outcome);
            self.states.remove(state);
        }
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        let first = self.next_sequence - self.steps.len() as u64;
        sequence.checked_sub(first).map(|at| at as usize).filter(|at| *at < self.steps.len())
    }

    /// The step with that sequence, if it is still in the ring.
    #[must_use]
    pub fn get(&self, sequence: u64) -> Option<&Step> {
        self.position(sequence).and_then(|at| self.steps.get(at))
    }

    #[must_use]
    pub fn newest(&self) -> Option<&Step> {
        self.steps.back()
    }

    /// All steps of the ring, newest first, whatever the floor.
    pub fn ring_back(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().rev()
    }

    /// All steps of the ring, oldest first, whatever the floor.
    pub fn ring(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter()
    }

    /// Open steps of the ring, newest first, whatever the floor. Looks no further than the last of them.
    pub fn open_back(&self) -> impl Iterator<Item = &Step> {
        self.ring_back().filter(|step| step.flags.contains(Flags::OPEN)).take(self.open)
    }

    /// Counted steps from the floor on, newest first: transparent ones are left out.
    pub fn counted_back(&self) -> impl Iterator<Item = &Step> {
        let floor = self.floor;
        self.steps.iter().rev().take_while(move |step| step.sequence >= floor).filter(|step| !step.is_transparent())
    }

    /// The same from a counted step on: calls made after it, whose answers came before its own, are not among those it is compared with.
    pub fn counted_back_from(&self, step: &Step) -> impl Iterator<Item = &Step> + use<'_> {
        let newest = step.sequence;
        self.counted_back().skip_while(move |later| later.sequence > newest)
    }

    /// Completed, counted steps from the floor on, newest first, from a completed one on.
    pub fn complete_back_from(&self, step: &Step) -> impl Iterator<Item = &Step> + use<'_> {
        self.counted_back_from(step).filter(|step| step.flags.contains(Flags::OBSERVED))
    }

    /// Completed, counted steps from the floor on, newest first.
    pub fn complete_back(&self) -> impl Iterator<Item = &Step> {
        self.counted_back().filter(|step| step.flags.contains(Flags::OBSERVED))
    }

    /// How often a call identity is held by the whole ring, whatever the floor.
    #[must_use]
    pub fn calls_in_ring(&self, call: Hash128) -> u32 {
        self.ring.count(fold(call))
    }

    /// Whether an event id is among those of the ring.
    #[must_use]
    pub fn knows_event(&self, event: Hash64) -> bool {
        self.ring.count(event) > 0
    }

    /// How many complete, counted steps from the floor on hold this approach.
    #[must_use]
    pub fn seen_call(&self, call: Hash128) -> u32 {
        self.seen.count(fold(call))
    }

    /// How many complete, counted steps from the floor on hold this outcome.
    #[must_use]
    pub fn seen_outcome(&self, outcome: Hash64) -> u32 {
        if outcome.is_some() { self.seen.count(as_outcome(outcome)) } else { 0 }
    }

    /// How many complete, counted steps from the floor on hold this state: an upper bound of any window's count.
    #[must_use]
    pub fn seen_state(&self, state: Hash64) -> u32 {
        self.states.count(state)
    }

    /// The name of a step's tool.
    #[must_use]
    pub fn tool(&self, step: &Step) -> &str {
        self.names.name(step.tool)
    }

    #[must_use]
    pub const fn names(&self) -> &ToolNames {
        &self.names
    }

    /// Sequence of the next step: how many the session has had.
    #[must_use]
    pub const fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Sequence of the first step that counts.
    #[must_use]
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Steps the ring holds at most.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is no step.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Slot of a sequence: its place on disk.
    #[must_use]
    pub const fn slot(&self, sequence: u64) -> u16 {
        (sequence % self.capacity as u64) as u16
    }

    /// Bytes held, for the cache's budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>()
            + self.step_bytes
            + self.names.bytes()
            + self.ring.bytes()
            + self.seen.bytes()
            + self.states.bytes()
            + self.remembered.0.as_ref().map_or(0, |remembered| remembered.bytes())
    }
}

/// Bytes that a step holds beside itself.
fn bytes_of(step: &Step) -> usize {
    let evidence = step.evidence.as_ref().map_or(0, Evidence::bytes);
    step.event_id.len() + step.excerpt.len() + step.tokens.0.len() * 4 + evidence
}

/// The hashes of a step that indexes hold.
struct Indexed {
    /// It is requested and has neither returned nor been closed.
    is_open: bool,
    /// Call and event ids, as long as the step is in the ring.
    ring: [Hash64; 3],
    /// Call, outcome and state, once the step is complete and counts.
    seen: Option<[Hash64; 3]>,
}

impl Indexed {
    fn of(step: &Step) -> Self {
        let call = fold(step.call);
        Self {
            is_open: step.flags.contains(Flags::OPEN),
            ring: [call, step.event, step.result_event],
            seen: step.is_complete().then(|| [call, as_outcome(step.outcome), step.state]),
        }
    }
}

fn fold(call: Hash128) -> Hash64 {
    Hash64((call.0 >> 64) as u64)
}

/// Outcomes share an index with calls; the two must not meet.
fn as_outcome(outcome: Hash64) -> Hash64 {
    if outcome.is_some() { Hash64(outcome.0 ^ 0x9e37_79b9_7f4a_7c15) } else { outcome }
}
