//! Values held in memory: bounded in bytes, and pinned while they are not committed.
//!
//! Which value leaves is decided by second chance, an approximation of least recently used that costs one bit per touch. What is held
//! never reaches an output: a value reads the same from the store.

use std::ops::{Deref, DerefMut};

/// SlotIndex of a value among those held; good until the next insertion, that of a pinned one until it is unpinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

/// A value that is held.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    value: T,
    is_pinned: bool,
    is_referenced: bool,
    bytes: usize,
}

impl<T> Deref for Slot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Slot<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Slot<T> {
    /// It changes, and stays until it is written; true for the first time since then.
    pub(crate) const fn pin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pinned, true)
    }

    /// It is written, and may leave.
    pub(crate) const fn unpin(&mut self) {
        self.is_pinned = false;
    }

    pub(crate) const fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// It is used: it gets a second chance.
    pub(crate) const fn refer(&mut self) {
        self.is_referenced = true;
    }
}

/// All that is held.
#[derive(Debug)]
pub(crate) struct Pinned<T> {
    slots: Vec<Option<Box<Slot<T>>>>,
    free: Vec<SlotIndex>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
    /// Calls of [`Self::make_room`] that are left out, since the last one found nothing that may leave.
    left_out: usize,
    /// Values that searches looked at.
    #[cfg(test)]
    looked_at: usize,
}

impl<T> Pinned<T> {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max,
            left_out: 0,
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a value of so many bytes.
    pub(crate) fn insert(&mut self, value: T, bytes: usize) -> SlotIndex {
        let slot = Some(Box::new(Slot { value, is_pinned: false, is_referenced: true, bytes }));
        self.bytes += bytes;
        let place = self.free.pop().unwrap_or(SlotIndex(self.slots.len() as u32));
        match self.slots.get_mut(place.0 as usize) {
            Some(free) => *free = slot,
            None => self.slots.push(slot),
        }
        place
    }

    pub(crate) fn get(&self, place: SlotIndex) -> Option<&Slot<T>> {
        self.slots.get(place.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, place: SlotIndex) -> Option<&mut Slot<T>> {
        self.slots.get_mut(place.0 as usize)?.as_deref_mut()
    }

    /// All values.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<T>> {
        self.slots.iter_mut().flatten().map(Box::as_mut)
    }

    /// Notes how large a value is now. Returns the bytes it grew by.
    pub(crate) fn resize(&mut self, place: SlotIndex, bytes: usize) -> usize {
        let Some(slot) = self.slots.get_mut(place.0 as usize).and_then(Option::as_mut) else { return 0 };
        let before = std::mem::replace(&mut slot.bytes, bytes);
        self.bytes = self.bytes - before + bytes;
        bytes.saturating_sub(before)
    }

    pub(crate) fn remove(&mut self, place: SlotIndex) -> Option<T> {
        let slot = self.slots.get_mut(place.0 as usize)?.take()?;
        self.bytes -= slot.bytes;
        self.free.push(place);
        Some(slot.value)
    }

    /// Places of the values of which this holds.
    pub(crate) fn places(&self, is_meant: impl Fn(&T) -> bool) -> Vec<SlotIndex> {
        let slots = (0..).map(SlotIndex).zip(&self.slots);
        slots.filter(|(_, slot)| slot.as_ref().is_some_and(|slot| is_meant(slot))).map(|(place, _)| place).collect()
    }

    /// Values were unpinned: the next search for room finds them.
    pub(crate) const fn unpinned(&mut self) {
        self.left_out = 0;
    }

    /// Lets values leave until the rest fits, and hands them over. A search that finds all of them pinned is not repeated for every value
    /// that comes: what comes is pinned too, and between two commits the bound is the commit's.
    pub(crate) fn make_room(&mut self, mut gone: impl FnMut(T)) {
        if self.left_out > 0 && self.bytes > self.bytes_max {
            self.left_out -= 1;
            return;
        }
        // Twice around: once to take the second chances away, once to evict. What is pinned stays; the next commit frees it.
        let mut left = 2 * self.slots.len();
        while self.bytes > self.bytes_max && left > 0 {
            left -= 1;
            #[cfg(test)]
            {
                self.looked_at += 1;
            }
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            if let Some(Some(slot)) = self.slots.get_mut(self.hand)
                && !slot.is_pinned
                && !std::mem::replace(&mut slot.is_referenced, false)
            {
                self.remove(SlotIndex(self.hand as u32)).into_iter().for_each(&mut gone);
            }
        }
        self.left_out = if self.bytes > self.bytes_max { self.slots.len() / 2 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_while_nothing_may_leave_costs_no_search_each() {
        let mut held = Pinned::new(10);
        for number in 0..1_000 {
            let place = held.insert(number, 10);
            held.get_mut(place).unwrap().pin();
        }
        for number in 0..1_000 {
            held.make_room(|_| panic!("pinned"));
            let place = held.insert(number, 10);
            held.get_mut(place).unwrap().pin();
        }
        assert!(held.looked_at < 20_000, "{} values looked at", held.looked_at);
        held.iter_mut().for_each(Slot::unpin);
        held.unpinned();
        held.make_room(drop);
        assert!(held.bytes() <= 10, "{}", held.bytes());
    }
}
