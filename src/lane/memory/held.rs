//! Small values of a task under keys of its store: each is read when it is first asked for, changed in memory, and written by the commit where
//! it differs from what the store has.

use std::collections::{BTreeMap, btree_map::Entry};
use std::ops::ControlFlow;

use loopwarden_core::event::TaskId;
use loopwarden_state::{Change, StateKey, StateStore, StoreError, Stored, read, try_scan};

use crate::memory::uncommitted::{Uncommitted, Versioned};

/// The values that were asked for since the last commit, by their keys. Beyond it none is held: few are asked for.
#[derive(Debug)]
pub(crate) struct Held<S> {
    /// `None` = there is no such value.
    values: BTreeMap<Vec<u8>, Versioned<Option<S>>>,
}

impl<S> Held<S> {
    pub(crate) const fn new() -> Self {
        Self { values: BTreeMap::new() }
    }
}

impl<S: Stored + Clone + PartialEq> Held<S> {
    /// The value under a key as of now, to be read or changed. Put there or taken away, it is so from the commit on.
    pub(crate) fn get(&mut self, key: &[u8], store: &dyn StateStore, task: TaskId) -> Result<&mut Option<S>, StoreError> {
        match self.values.entry(key.to_vec()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(Versioned::new(read(store, task, key)?))),
        }
    }

    /// Visits the values as of now whose keys begin so.
    pub(crate) fn visit(
        &self,
        prefix: &[u8],
        store: &dyn StateStore,
        task: TaskId,
        mut visit: impl FnMut(&[u8], &S),
    ) -> Result<(), StoreError> {
        for (key, value) in self.values.iter().filter(|(key, _)| key.starts_with(prefix)) {
            value.as_ref().into_iter().for_each(|value| visit(key, value));
        }
        try_scan(store, task, S::FAMILY, prefix, prefix, |key, value| {
            if !self.values.contains_key(key) {
                visit(key, &S::decode(value)?);
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}

impl<S: Stored + Clone + PartialEq> Uncommitted for Held<S> {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for (key, value) in self.values.iter().filter(|(_, value)| value.is_changed()) {
            let value = value.as_ref().map(S::encode).transpose()?;
            out.push(Change { task, key: StateKey::new(S::FAMILY, key.clone()), value });
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.values.clear();
    }

    fn rewind(&mut self) {
        self.values.clear();
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_state::MemoryStore;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    fn count(held: &Held<[u64; 1]>, store: &MemoryStore) -> usize {
        let mut count = 0;
        held.visit(b"", store, TASK, |_, _| count += 1).unwrap();
        count
    }

    fn changes(held: &mut Held<[u64; 1]>) -> Vec<Change> {
        let mut changes = Vec::new();
        held.changes(TASK, &mut changes).unwrap();
        changes
    }

    #[test]
    fn what_differs_from_the_store_is_written_and_what_never_happened_is_not() {
        let (mut store, mut held) = (MemoryStore::new(), Held::new());
        *held.get(b"a", &store, TASK).unwrap() = Some([1]);
        held.rewind();
        assert_eq!(held.get(b"a", &store, TASK), Ok(&mut None));
        assert_eq!(changes(&mut held), []);
        *held.get(b"a", &store, TASK).unwrap() = Some([2]);
        assert_eq!(count(&held, &store), 1);
        store.commit(changes(&mut held)).unwrap();
        held.committed();
        assert_eq!(count(&held, &store), 1, "it lies in the store");
        // Taken away and put back, it is as the store has it.
        let value = held.get(b"a", &store, TASK).unwrap().take();
        assert_eq!(changes(&mut held).len(), 1);
        *held.get(b"a", &store, TASK).unwrap() = value;
        assert_eq!(changes(&mut held), []);
        *held.get(b"a", &store, TASK).unwrap() = None;
        assert_eq!(count(&held, &store), 0, "the store has it, and will not");
        store.commit(changes(&mut held)).unwrap();
        held.committed();
        assert_eq!(held.get(b"a", &store, TASK), Ok(&mut None));
    }
}
