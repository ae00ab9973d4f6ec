//! Writes to any areas that happen together.

use rocksdb::WriteBatch;

use crate::keys::database_key;
use crate::{Area, Change, RocksStore, StoreError};

/// A batch of writes, in order: a later write to a key wins. Nothing happens before [`RocksStore::write`].
pub struct RocksBatch {
    store: RocksStore,
    batch: WriteBatch,
    /// A missing area shows when the batch is written.
    failed: Option<StoreError>,
}

impl std::fmt::Debug for RocksBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksBatch").field("writes", &self.batch.len()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl RocksBatch {
    pub(super) fn new(store: RocksStore) -> Self {
        Self::with_capacity(store, 0)
    }

    /// Grows no further up to so many bytes: growing copies all there is, and takes new pages from the system each time.
    pub(super) fn with_capacity(store: RocksStore, bytes: usize) -> Self {
        Self { store, batch: WriteBatch::with_capacity_bytes(bytes), failed: None }
    }

    pub fn put(&mut self, area: Area, key: &[u8], value: &[u8]) {
        match self.store.handle(area) {
            Ok(handle) => self.batch.put_cf(handle, key, value),
            Err(error) => self.failed = Some(error),
        }
    }

    pub fn delete(&mut self, area: Area, key: &[u8]) {
        match self.store.handle(area) {
            Ok(handle) => self.batch.delete_cf(handle, key),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Removes the keys from `from` (inclusive) to `to` (exclusive).
    pub fn delete_range(&mut self, area: Area, from: &[u8], to: &[u8]) {
        match self.store.handle(area) {
            Ok(handle) => self.batch.delete_range_cf(handle, from, to),
            Err(error) => self.failed = Some(error),
        }
    }

    /// One change of a task's state.
    pub fn change(&mut self, change: &Change) {
        let key = database_key(change.task, change.key.family, &change.key.bytes);
        match &change.value {
            Some(value) => self.put(Area::State, &key, value),
            None => self.delete(Area::State, &key),
        }
    }

    /// Bytes so far, as they will stand in the write-ahead log.
    pub fn bytes(&self) -> usize {
        self.batch.size_in_bytes()
    }

    pub(super) fn into_inner(self) -> Result<WriteBatch, StoreError> {
        self.failed.map_or(Ok(self.batch), Err)
    }
}
