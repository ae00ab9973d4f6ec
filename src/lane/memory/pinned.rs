//! Values held in memory under the keys of their subjects: bounded in bytes, and pinned while they are not committed.
//!
//! Which value leaves is decided by second chance, an approximation of least recently used that costs one bit per touch. What is held
//! never reaches an output: a value reads the same from the store.

use std::ops::{Deref, DerefMut};

use loopwarden_core::event::TaskId;

// The hasher is keyed anew in each process: names come from outside.
#[expect(clippy::disallowed_types, reason = "look-up only; nothing iterates over it")]
type Index = std::collections::HashMap<Box<[u8]>, SlotIndex, ahash::RandomState>;

/// Bytes of the partition in front of a key in the index: one subject in two partitions is two values.
const PREFIX: usize = 4;

/// Place of a value among those held; good until the next insertion, that of a pinned one until it is unpinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

/// A value that is held.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    value: T,
    task: TaskId,
    /// Partition, and the key within the task.
    key: Box<[u8]>,
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
    /// The task whose value it is.
    pub(crate) const fn task(&self) -> TaskId {
        self.task
    }

    /// Its key within the task.
    pub(crate) fn key(&self) -> &[u8] {
        self.key.get(PREFIX..).unwrap_or_default()
    }

    /// Whether it has changed since the last commit.
    pub(crate) const fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// It is used: it gets a second chance.
    pub(crate) const fn refer(&mut self) {
        self.is_referenced = true;
    }
}

/// All that is held of one kind, of all tasks of a lane in one stage.
#[derive(Debug)]
pub(crate) struct Pinned<T> {
    index: Index,
    slots: Vec<Option<Box<Slot<T>>>>,
    free: Vec<SlotIndex>,
    /// In the order of their first change.
    changed: Vec<SlotIndex>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
    /// Calls of [`Self::make_room`] that are left out, since the last one found nothing that may leave.
    left_out: usize,
    /// A key that is looked up.
    scratch: Vec<u8>,
    /// Values that searches looked at.
    #[cfg(test)]
    looked_at: usize,
}

impl<T> Pinned<T> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            index: Index::default(),
            slots: Vec::new(),
            free: Vec::new(),
            changed: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max,
            left_out: 0,
            scratch: Vec::new(),
            #[cfg(test)]
            looked_at: 0,
        }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Finds a value by the parts of its key, without allocating.
    pub(crate) fn find<'k>(&mut self, task: TaskId, key: impl IntoIterator<Item = &'k [u8]>) -> Option<SlotIndex> {
        self.scratch.clear();
        self.scratch.extend_from_slice(&task.partition.to_be_bytes());
        key.into_iter().for_each(|part| self.scratch.extend_from_slice(part));
        self.index.get(self.scratch.as_slice()).copied()
    }

    /// Whether a value is held that has changed since the last commit: then the store does not know it.
    pub(crate) fn is_pinned(&self, task: TaskId, key: &[u8]) -> bool {
        let found = self.index.get(whole_key(task, key).as_slice());
        found.and_then(|place| self.get(*place)).is_some_and(Slot::is_pinned)
    }

    /// Takes a value of so many bytes, its key left out, under a key that none is held under.
    pub(crate) fn insert(&mut self, task: TaskId, key: &[u8], value: T, bytes: usize) -> SlotIndex {
        let key: Box<[u8]> = whole_key(task, key).into();
        let slot = Slot { value, task, key: key.clone(), is_pinned: false, is_referenced: true, bytes: 0 };
        let place = self.free.pop().unwrap_or(SlotIndex(self.slots.len() as u32));
        match self.slots.get_mut(place.0 as usize) {
            Some(free) => *free = Some(Box::new(slot)),
            None => self.slots.push(Some(Box::new(slot))),
        }
        self.index.insert(key, place);
        self.resize(place, bytes);
        place
    }

    pub(crate) fn get(&self, place: SlotIndex) -> Option<&Slot<T>> {
        self.slots.get(place.0 as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, place: SlotIndex) -> Option<&mut Slot<T>> {
        self.slots.get_mut(place.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<T>> {
        self.slots.iter_mut().flatten().map(Box::as_mut)
    }

    /// Notes how large a value is now, its key left out. Returns the bytes it grew by.
    pub(crate) fn resize(&mut self, place: SlotIndex, bytes: usize) -> usize {
        let Some(slot) = self.slots.get_mut(place.0 as usize).and_then(Option::as_mut) else { return 0 };
        // The key stands in the index too.
        let bytes = bytes + 2 * slot.key.len();
        let before = std::mem::replace(&mut slot.bytes, bytes);
        self.bytes = self.bytes - before + bytes;
        bytes.saturating_sub(before)
    }

    /// A value has changed: it stays until it is written. True for the first time since then.
    pub(crate) fn pin(&mut self, place: SlotIndex) -> bool {
        let Some(slot) = self.get_mut(place) else { return false };
        slot.is_referenced = true;
        let is_first = !std::mem::replace(&mut slot.is_pinned, true);
        if is_first {
            self.changed.push(place);
        }
        is_first
    }

    /// The values that have changed since the last commit, in the order of their first change.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = &Slot<T>> {
        self.changed.iter().filter_map(|place| self.get(*place))
    }

    /// What has changed is written, or never happened: it may leave, and the next search for room finds it. Returns where it is.
    pub(crate) fn unpin(&mut self) -> Vec<SlotIndex> {
        self.left_out = 0;
        let places = std::mem::take(&mut self.changed);
        for place in &places {
            if let Some(slot) = self.get_mut(*place) {
                slot.is_pinned = false;
            }
        }
        places
    }

    pub(crate) fn remove(&mut self, place: SlotIndex) -> Option<Box<Slot<T>>> {
        let slot = self.slots.get_mut(place.0 as usize)?.take()?;
        self.index.remove(&slot.key);
        self.bytes -= slot.bytes;
        self.free.push(place);
        Some(slot)
    }

    /// Forgets every value of the tasks that are meant, changed or not.
    pub(crate) fn remove_of(&mut self, is_meant: impl Fn(TaskId) -> bool) {
        for at in 0..self.slots.len() as u32 {
            if self.get(SlotIndex(at)).is_some_and(|slot| is_meant(slot.task)) {
                self.remove(SlotIndex(at));
            }
        }
        // No other value has taken their places yet.
        let Self { changed, slots, .. } = self;
        changed.retain(|place| slots.get(place.0 as usize).is_some_and(Option::is_some));
    }

    /// Lets values leave until the rest fits, and hands them over. A search that finds all of them pinned is not repeated for every value
    /// that comes: what comes is pinned too, and between two commits the bound is the commit's.
    pub(crate) fn make_room(&mut self, mut gone: impl FnMut(&Slot<T>)) {
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
                && let Some(slot) = self.remove(SlotIndex(self.hand as u32))
            {
                gone(&slot);
            }
        }
        self.left_out = if self.bytes > self.bytes_max { self.slots.len() / 2 } else { 0 };
    }
}

/// A key as it stands in the index.
fn whole_key(task: TaskId, key: &[u8]) -> Vec<u8> {
    [&task.partition.to_be_bytes()[..], key].concat()
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    #[test]
    fn what_comes_while_nothing_may_leave_costs_no_search_each() {
        let mut held = Pinned::new(10);
        for number in 0..2_000_u32 {
            if number >= 1_000 {
                held.make_room(|_| panic!("pinned"));
            }
            let place = held.insert(TASK, &number.to_be_bytes(), number, 10);
            assert!(held.pin(place) && !held.pin(place));
        }
        assert!(held.looked_at < 20_000, "{} values looked at", held.looked_at);
        assert_eq!(held.unpin().len(), 2_000);
        held.make_room(|_| {});
        assert_eq!((held.bytes(), held.len()), (0, 0));
    }

    #[test]
    fn a_value_is_found_by_its_key_in_its_partition_until_its_task_goes() {
        let mut held = Pinned::new(1_000);
        let other = TaskId { partition: 1, ..TASK };
        let place = held.insert(TASK, b"ab", 1, 10);
        held.pin(place);
        assert_eq!((held.find(TASK, [&b"a"[..], b"b"]), held.find(other, [&b"ab"[..]])), (Some(place), None));
        assert!(held.is_pinned(TASK, b"ab") && !held.is_pinned(other, b"ab"));
        held.remove_of(|task| task == other);
        assert_eq!(held.pinned().map(|slot| **slot).collect::<Vec<_>>(), [1]);
        held.remove_of(|task| task == TASK);
        assert_eq!((held.pinned().count(), held.find(TASK, [&b"ab"[..]]), held.bytes()), (0, None, 0));
    }
}
