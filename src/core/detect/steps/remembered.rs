//! Which hashes the remembered steps hold, so that what is new is found by looking up and not by walking: a step costs what it holds, not what
//! its session is long. Derived from the ring, never stored.

use crate::detect::{steps::names::ToolId, steps::step::Step};
use crate::identity::SketchView;

/// Steps before the newest that it is compared with.
pub const MEMORY_STEPS: usize = 64;
/// Of no more steps is there an index: a walk over them costs less, and most sessions are as short.
pub(crate) const FEW_STEPS: usize = 16;
/// Steps that must have completed since a session was loaded: of one that leaves the memory after each event no index pays.
pub(crate) const COMPLETED_MIN: u8 = 2;
/// Sequences in the index are numbers of 32 bits; no session that is at work for a century has so many steps.
pub(crate) const SEQUENCE_MAX: u64 = u32::MAX as u64 - 1;

/// Slots of the smallest table.
const SLOTS_MIN: usize = 32;

/// A key with the newest step that held it, by its sequence plus one; 0 in a slot that is free.
#[derive(Debug, Clone, Copy, Default)]
struct LastHolder {
    key: u32,
    last: u32,
}

/// The newest step that held each key. Open addressing: keys are mixed already, and no order can leak.
#[derive(Debug, Default)]
pub(crate) struct LastSeen {
    slots: Box<[LastHolder]>,
    used: usize,
}

impl LastSeen {
    /// Whether a step from sequence `oldest` on held a key.
    #[inline]
    pub(crate) fn holds(&self, key: u32, oldest: u64) -> bool {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key as usize & mask;
        while let Some(seen) = self.slots.get(at).filter(|seen| seen.last != 0) {
            if seen.key == key {
                return u64::from(seen.last) > oldest;
            }
            at = (at + 1) & mask;
        }
        false
    }

    /// Which hashes of a sketch a step from `oldest` on held: a bit for the place of each.
    #[must_use]
    pub(crate) fn places(&self, sketch: SketchView<'_>, oldest: u64) -> u32 {
        let mut places = 0;
        for (place, hash) in sketch.hashes().iter().enumerate() {
            places |= u32::from(self.holds(*hash, oldest)).checked_shl(place as u32).unwrap_or_default();
        }
        places
    }

    /// A step held these keys. Where there is no room, those that no step from `oldest` on held are dropped.
    fn take(&mut self, keys: impl ExactSizeIterator<Item = u32>, last: u32, oldest: impl FnOnce() -> u64) {
        if (self.used + keys.len()) * 4 > self.slots.len() * 3 {
            let oldest = oldest();
            let slots = std::mem::take(&mut self.slots);
            let is_kept = |seen: &&LastHolder| seen.last != 0 && u64::from(seen.last) > oldest;
            let kept = slots.iter().filter(is_kept).count();
            self.slots = vec![LastHolder::default(); ((kept + keys.len()) * 2).next_power_of_two().max(SLOTS_MIN)].into();
            self.used = 0;
            slots.iter().filter(is_kept).for_each(|seen| self.note(seen.key, seen.last));
        }
        keys.for_each(|key| self.note(key, last));
    }

    /// Notes one of them: there must be room.
    #[inline]
    fn note(&mut self, key: u32, last: u32) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = key as usize & mask;
        while let Some(seen) = self.slots.get_mut(at) {
            if seen.last == 0 {
                *seen = LastHolder { key, last };
                self.used += 1;
                return;
            }
            if seen.key == key {
                // An answer may come after those of later steps.
                seen.last = seen.last.max(last);
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

/// An index that is there or not. A copy of a session has none: it is kept until a commit, and hardly ever needed.
#[derive(Debug, Default)]
pub(crate) struct Derived(pub(crate) Option<Box<Remembered>>);

impl Clone for Derived {
    fn clone(&self) -> Self {
        Self(None)
    }
}

/// What the remembered steps of a session hold.
#[derive(Debug, Default)]
pub struct Remembered {
    /// Hashes of answers and failures.
    pub(crate) answers: LastSeen,
    /// Hashes of what calls were asked for.
    pub(crate) arguments: LastSeen,
    /// Words that could name something, from answers.
    shown: LastSeen,
    /// The same from calls, for each tool.
    asked: LastSeen,
    /// The newest step in it.
    newest: u64,
    /// A step that has completed and is not in it yet.
    pending: Option<u64>,
}

impl Remembered {
    /// Whether it holds all steps before one, and none from it on.
    pub(crate) fn is_before(&self, sequence: u64) -> bool {
        self.newest < sequence && self.pending.is_none_or(|pending| pending == sequence)
    }

    /// A step has completed; false where another one is waiting.
    pub(crate) fn expect(&mut self, sequence: u64) -> bool {
        self.pending.replace(sequence).is_none_or(|pending| pending == sequence)
    }

    /// Takes a step that has completed. `oldest`: what no later step is compared with any more ends before it.
    pub(crate) fn take(&mut self, step: &Step, oldest: impl Fn() -> u64) {
        let (evidence, last) = (step.evidence(), step.sequence as u32 + 1);
        for hashes in [evidence.answer(), evidence.failure()] {
            self.answers.take(hashes.hashes().iter().copied(), last, &oldest);
        }
        self.arguments.take(evidence.arguments().hashes().iter().copied(), last, &oldest);
        self.shown.take(evidence.shown().iter().map(|word| u32::from(*word)), last, &oldest);
        self.asked.take(evidence.asked().iter().map(|word| of_tool(*word, step.tool)), last, &oldest);
        self.newest = self.newest.max(step.sequence);
        self.pending = None;
    }

    /// Whether an answer from step `oldest` on showed a word.
    pub(crate) fn was_shown(&self, word: u16, oldest: u64) -> bool {
        self.shown.holds(u32::from(word), oldest)
    }

    /// Whether a call of a tool from step `oldest` on named a word.
    pub(crate) fn was_asked(&self, word: u16, tool: ToolId, oldest: u64) -> bool {
        self.asked.holds(of_tool(word, tool), oldest)
    }

    /// Bytes held, for the cache's budget.
    #[must_use]
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.answers.bytes() + self.arguments.bytes() + self.shown.bytes() + self.asked.bytes()
    }
}

/// A word with the tool that it was named to. Ids of tools are used again once no step of the ring has them: no remembered step does then.
fn of_tool(word: u16, tool: ToolId) -> u32 {
    u32::from(tool.0) << 16 | u32::from(word)
}
