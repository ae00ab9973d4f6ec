//! Where the steps of a session's ring lie in the store: those of the newest group of slots in the head's record, the others in pages.

use std::collections::BTreeSet;

use loopwarden_core::detect::History;

use crate::step;

/// What the store holds of a session's ring: which sequences, and under which slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredRing {
    /// Slots of the ring that the steps were written under.
    pub capacity: usize,
    /// Sequence of the next step.
    pub next_sequence: u64,
    /// Sequence of the first step that counts.
    pub floor: u64,
    /// Steps held: the last so many sequences.
    pub len: usize,
}

impl StoredRing {
    /// The ring of a history as it would be stored now.
    pub fn of(history: &History) -> Self {
        Self { capacity: history.capacity(), next_sequence: history.next_sequence(), floor: history.floor(), len: history.len() }
    }

    /// The oldest sequence it holds.
    pub(super) fn first(&self) -> u64 {
        self.next_sequence - (self.len as u64).min(self.next_sequence)
    }

    /// The sequence that the ring holds in a slot; `None` where it holds none.
    pub fn sequence_in(&self, slot: u16) -> Option<u64> {
        let capacity = (self.capacity as u64).max(1);
        let first = self.first();
        let sequence = first + (u64::from(slot) + capacity - first % capacity) % capacity;
        (u64::from(slot) < capacity && sequence < self.next_sequence).then_some(sequence)
    }

    /// The group of slots that lies in the head: that of the newest step. A function of the ring alone, so that the same session is stored the
    /// same way wherever commits cut its events.
    pub(super) fn open_group(&self) -> Option<u16> {
        let newest = self.next_sequence.checked_sub(1).filter(|_| self.len > 0)?;
        Some(step::group_of((newest % (self.capacity as u64).max(1)) as u16))
    }

    /// Whether the step in a slot lies in the head.
    pub fn is_open(&self, slot: u16) -> bool {
        self.open_group() == Some(step::group_of(slot))
    }

    /// Slots whose steps lie in the head.
    pub(super) fn open_slots(&self) -> impl Iterator<Item = u16> + use<> {
        self.open_group().into_iter().flat_map(step::slots_of_group)
    }

    /// Slots of a page's record: those that do not lie in the head.
    pub(super) fn slots_of_page(&self, page: u16) -> impl Iterator<Item = u16> + use<> {
        let ring = *self;
        step::slots_of_page(page).filter(move |slot| !ring.is_open(*slot))
    }

    /// Whether a page has a record.
    pub(super) fn has_page(&self, page: u16) -> bool {
        self.slots_of_page(page).any(|slot| self.sequence_in(slot).is_some())
    }

    /// Whether any page has one.
    pub(super) fn has_pages(&self) -> bool {
        self.len > self.open_slots().filter(|slot| self.sequence_in(*slot).is_some()).count()
    }

    /// Pages that have a record.
    pub fn pages(&self) -> BTreeSet<u16> {
        let capacity = (self.capacity as u64).max(1);
        let slots = (self.first()..self.next_sequence).map(|sequence| (sequence % capacity) as u16);
        slots.filter(|slot| !self.is_open(*slot)).map(step::page_of).collect()
    }
}
