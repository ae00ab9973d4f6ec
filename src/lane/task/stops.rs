//! Whom operators stop, of one task: those that have changed since the last commit in memory, the rest in the store. There are few, and none
//! is looked up but by an event of an operator or its own timer.

use std::{collections::BTreeMap, ops::ControlFlow};

use loopwarden_core::{engine::StopState, event::TaskId};
use loopwarden_state::{Change, KeyFamily, StateKey, StateStore, StoreError, stop as stored};

use crate::memory::uncommitted::Uncommitted;

/// Stops by the key of their state row.
#[derive(Debug, Default)]
pub(crate) struct Stops {
    /// None where the subject is forgotten.
    changed: BTreeMap<Vec<u8>, Option<StopState>>,
}

impl Stops {
    /// What is known of a subject.
    pub(crate) fn get(&self, key: &[u8], store: &dyn StateStore, task: TaskId) -> Result<Option<StopState>, StoreError> {
        if let Some(changed) = self.changed.get(key) {
            return Ok(changed.clone());
        }
        store.get(task, &StateKey::new(KeyFamily::Stop, key.to_vec()))?.map(|bytes| stored::decode(&bytes)).transpose()
    }

    /// What is known of it from now on; none: it is forgotten.
    pub(crate) fn set(&mut self, key: &[u8], state: Option<StopState>) {
        self.changed.insert(key.to_vec(), state);
    }

    /// How many there are whose keys begin so, counted no further than `max`.
    pub(crate) fn count(&self, prefix: &[u8], max: usize, store: &dyn StateStore, task: TaskId) -> Result<usize, StoreError> {
        let mut count = self.changed.iter().filter(|(key, state)| state.is_some() && key.starts_with(prefix)).count();
        store.scan(task, KeyFamily::Stop, prefix, prefix, &mut |key, _| {
            count += usize::from(!self.changed.contains_key(key));
            if count < max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(count)
    }
}

impl Uncommitted for Stops {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for (key, state) in &self.changed {
            let value = state.as_ref().map(stored::encode).transpose()?;
            out.push(Change { task, key: StateKey::new(KeyFamily::Stop, key.clone()), value });
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.changed.clear();
    }

    fn rewind(&mut self) {
        self.changed.clear();
    }
}
