//! A sorted set of keys of one family: the first ones in memory, the rest in the store, the changes since the last commit on top.
//!
//! Who takes from the front pays one read of the store for many keys, and never walks over what was deleted there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use loopwarden_core::{event::TaskId, limits::TIMERS_HELD_MAX};
use loopwarden_state::{Change, KeyFamily, StateKey, StateStore, StoreError};

/// Value of a record: its format version. The key says the rest.
const VALUE: [u8; 1] = [1];
/// Keys read from the store at a time.
const READ: usize = 256;

type Key = Vec<u8>;

/// How far [`SortedKeys::held`] is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Complete {
    /// Nothing was read yet.
    Nothing,
    /// Every key up to this one is held.
    To(Key),
    /// All are held.
    All,
}

/// What the commit must do about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pending {
    /// Set; the store is known to lack it. Removed again before the commit, it leaves no trace: most timers are moved within one.
    Added,
    /// Set; the store may have it.
    Set,
    /// Removed; the store may have it.
    Removed,
}

/// The keys of a family that begin with a prefix.
#[derive(Debug)]
pub(crate) struct SortedKeys {
    family: KeyFamily,
    prefix: &'static [u8],
    held: BTreeSet<Key>,
    complete: Complete,
    /// Set or removed since the last commit. Empty once a commit is staged.
    changed: BTreeMap<Key, Pending>,
}

impl SortedKeys {
    pub(crate) const fn new(family: KeyFamily, prefix: &'static [u8]) -> Self {
        Self { family, prefix, held: BTreeSet::new(), complete: Complete::Nothing, changed: BTreeMap::new() }
    }

    /// The smallest key.
    pub(crate) fn first(&mut self, store: &dyn StateStore, task: TaskId) -> Result<Option<&Key>, StoreError> {
        while self.held.is_empty() && self.complete != Complete::All {
            self.read(store, task)?;
        }
        Ok(self.held.first())
    }

    /// Every key, in no order.
    pub(crate) fn each(&self, store: &dyn StateStore, task: TaskId, mut visit: impl FnMut(&[u8])) -> Result<(), StoreError> {
        store.scan(task, self.family, self.prefix, self.prefix, &mut |key, _| {
            if !self.changed.contains_key(key) {
                visit(key);
            }
            ControlFlow::Continue(())
        })?;
        self.changed.iter().filter(|(_, pending)| **pending != Pending::Removed).for_each(|(key, _)| visit(key));
        Ok(())
    }

    pub(crate) fn insert(&mut self, key: Key) {
        self.set(key, false);
    }

    /// The same for a key that the store has only if it was removed since the last commit.
    pub(crate) fn insert_new(&mut self, key: Key) {
        self.set(key, true);
    }

    fn set(&mut self, key: Key, is_new: bool) {
        let is_in_reach = match &self.complete {
            Complete::Nothing => false,
            Complete::To(last) => key <= *last,
            Complete::All => true,
        };
        let is_held = is_in_reach && !self.held.insert(key.clone());
        match self.changed.entry(key) {
            Entry::Occupied(mut known) if *known.get() == Pending::Removed => *known.get_mut() = Pending::Set,
            Entry::Occupied(_) => {}
            // The store has it.
            Entry::Vacant(_) if is_held => {}
            Entry::Vacant(new) => _ = new.insert(if is_in_reach || is_new { Pending::Added } else { Pending::Set }),
        }
        if self.held.len() > TIMERS_HELD_MAX {
            self.held.pop_last();
            if let Some(last) = self.held.last() {
                self.complete = Complete::To(last.clone());
            }
        }
    }

    /// True when it was in memory, and so may have been the first.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        match self.changed.remove_entry(key) {
            Some((_, Pending::Added)) => {}
            Some((key, _)) => drop(self.changed.insert(key, Pending::Removed)),
            None => drop(self.changed.insert(key.to_vec(), Pending::Removed)),
        }
        self.held.remove(key)
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Gives away the keys changed since the last commit: the one being staged writes them, or the whole set is dropped.
    pub(crate) fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) {
        let changed = std::mem::take(&mut self.changed);
        out.extend(changed.into_iter().map(|(key, pending)| Change {
            task,
            key: StateKey::new(self.family, key),
            value: (pending != Pending::Removed).then(|| VALUE.to_vec()),
        }));
    }

    fn read(&mut self, store: &dyn StateStore, task: TaskId) -> Result<(), StoreError> {
        let from = match &self.complete {
            Complete::Nothing => self.prefix.to_vec(),
            Complete::To(last) => {
                // The smallest key above it.
                let mut from = last.clone();
                from.push(0);
                from
            }
            Complete::All => return Ok(()),
        };
        let mut seen = 0;
        let mut last = None;
        let (changed, held) = (&self.changed, &mut self.held);
        store.scan(task, self.family, self.prefix, &from, &mut |key, _| {
            seen += 1;
            last = Some(key.to_vec());
            if changed.get(key) != Some(&Pending::Removed) {
                held.insert(key.to_vec());
            }
            if seen < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let to = last.filter(|_| seen >= READ);
        let end = to.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let set =
            self.changed.range::<Key, _>((Bound::Included(&from), end)).filter(|(_, pending)| **pending != Pending::Removed);
        self.held.extend(set.map(|(key, _)| key.clone()));
        self.complete = to.map_or(Complete::All, Complete::To);
        Ok(())
    }
}
