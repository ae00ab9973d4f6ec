//! Keyed state in memory: tests, simulation, replay. Same contract as `rocks`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, ops::Bound};

use loopwarden_core::event::TaskId;

use crate::{Change, KeyFamily, LoadBatch, ScanFlow, StateKey, StateStore, StoreError};

/// Records copied at a time by a scan.
const SCAN_PAGE: usize = 64;

type Tasks = BTreeMap<TaskId, BTreeMap<StateKey, Vec<u8>>>;

/// Keyed state in memory. A clone is another handle on the same state; [`MemoryStore::snapshot`] is a copy.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    tasks: Arc<Mutex<Tasks>>,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of everything as of now, for a test that goes on from here twice.
    pub fn snapshot(&self) -> Self {
        Self { tasks: Arc::new(Mutex::new(self.lock().clone())) }
    }

    /// Keys held, over all tasks.
    pub fn len(&self) -> usize {
        self.lock().values().map(BTreeMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A panic elsewhere cannot leave the map half changed in a way that matters: the process restores or ends.
    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for MemoryStore {
    fn handle(&self) -> Box<dyn StateStore> {
        Box::new(self.clone())
    }

    fn get(&self, task: TaskId, key: &StateKey) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().get(&task).and_then(|keys| keys.get(key)).cloned())
    }

    fn scan(
        &self,
        task: TaskId,
        family: KeyFamily,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ScanFlow,
    ) -> Result<(), StoreError> {
        let mut next = Bound::Included(StateKey::new(family, prefix.max(from).to_vec()));
        // In pages, visited without the lock: a visitor may ask the store.
        loop {
            let page: Vec<(StateKey, Vec<u8>)> = {
                let tasks = self.lock();
                let Some(keys) = tasks.get(&task) else { return Ok(()) };
                keys.range((next, Bound::Unbounded))
                    .take_while(|(key, _)| key.family == family && key.bytes.starts_with(prefix))
                    .take(SCAN_PAGE)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            };
            for (key, value) in &page {
                if visit(&key.bytes, value).is_break() {
                    return Ok(());
                }
            }
            match page.into_iter().next_back() {
                Some((last, _)) => next = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }

    fn tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        Ok(self.lock().iter().filter(|(_, keys)| !keys.is_empty()).map(|(id, _)| *id).collect())
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        let mut tasks = self.lock();
        for Change { task, key, value } in changes {
            let keys = tasks.entry(task).or_default();
            match value {
                Some(value) => drop(keys.insert(key, value)),
                None => drop(keys.remove(&key)),
            }
        }
        Ok(())
    }

    fn load(&mut self, batch: &mut LoadBatch) -> Result<(), StoreError> {
        self.commit(batch.to_changes())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn wipe(&mut self, task: TaskId) -> Result<(), StoreError> {
        self.lock().remove(&task);
        Ok(())
    }
}
