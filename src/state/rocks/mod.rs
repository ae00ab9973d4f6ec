//! The one RocksDB of a process. Nothing outside this directory names `rocksdb`; the embedded log writes through [`RocksBatch`],
//! so that its records and the state are one atomic write.
//!
//! Write-ahead log on, `sync=false`: `kill -9` loses nothing, power loss cuts the end off, at one point for all areas
//! (point-in-time recovery; before a memtable is flushed, RocksDB syncs the logs it leaves behind). What was durable and is gone stops the
//! start: RocksDB alone would take it for such a cut.

mod batch;
mod error;
mod mark;
mod options;
mod owner;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use batch::RocksBatch;
use loopwarden_core::event::TaskId;
pub use options::{Area, RocksOptions};
pub use owner::StoreOwner;
use rocksdb::statistics::Ticker;
use rocksdb::{DB, DBRawIterator, FlushOptions, ReadOptions, WriteBatch, WriteOptions, properties};

use crate::keys::{after_prefix, database_key, task_of, task_prefix};
use crate::{Change, KeyFamily, LoadBatch, ScanFlow, StateKey, StateStore, StoreError};

/// Bytes that a change takes in a batch besides its value and the end of its key: tag, lengths, the task's prefix. An upper bound.
const CHANGE_BYTES: usize = 32;

/// What the database uses, as of now. Bytes, unless the name has another unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Bytes in files of sorted records.
    pub sst_bytes: u64,
    /// Bytes in write buffers.
    pub memtable_bytes: u64,
    /// Block cache in use, pinned blocks included.
    pub cache_bytes: u64,
    /// Blocks in use by iterators just now.
    pub pinned_bytes: u64,
    /// What compaction still has to rewrite.
    pub compaction_pending_bytes: u64,
    /// Time writers were held back since the start. Microseconds.
    pub stall_us: u64,
    /// Times the write-ahead log was synced since the start.
    pub wal_syncs: u64,
    /// Whether writers are stopped at this moment.
    pub write_stopped: bool,
}

/// A handle on the database of this process. Clones share it; it closes with the last one.
#[derive(Debug, Clone)]
pub struct RocksStore {
    shared: Arc<Shared>,
}

struct Shared {
    db: DB,
    options: options::OpenOptions,
    dir: PathBuf,
    mark: mark::Mark,
    /// The first failed write. Nobody writes after it: what RocksDB holds in memory may differ from what is on disk.
    failed: Mutex<Option<StoreError>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RocksStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl RocksStore {
    /// Checks whose directory it is, and that all is there that was durable; writes both down where neither was.
    fn claim(&self, owner: &StoreOwner, durable: Option<u64>) -> Result<(), StoreError> {
        let (found, end) = (self.get_raw(Area::Meta, owner::KEY)?, self.shared.db.latest_sequence_number());
        if let Some(bytes) = &found {
            owner.check(bytes, self.dir())?;
        }
        match durable {
            // With Kafka the changelog has what lies behind an end that is too early.
            Some(durable) if found.is_none() || (owner.cluster.is_none() && end < durable) => {
                let (dir, gone) = (self.dir().display(), durable.saturating_sub(end));
                let message = format!("{dir}: the last {gone} of {durable} changes are gone, or files of all of them");
                return Err(StoreError::Corrupt(message));
            }
            None if found.is_some() => {
                let dir = self.dir().display();
                tracing::warn!(code = "W0401", %dir, "no mark of how far the state on disk reached: whether it is whole cannot be seen");
            }
            _ => {}
        }
        if found.is_none() {
            let mut batch = self.batch();
            batch.put(Area::Meta, owner::KEY, &owner.encode()?);
            self.write(batch)?;
        }
        self.sync_wal()
    }

    /// Opens the database in `dir`, or makes it. RocksDB's own lock keeps a second process out.
    ///
    /// # Errors
    /// [`StoreError::Locked`], [`StoreError::OtherFormat`], [`StoreError::OtherOwner`], [`StoreError::Corrupt`] and errors of the disk.
    pub fn open(dir: &Path, options: &RocksOptions, owner: &StoreOwner) -> Result<Self, StoreError> {
        std::fs::create_dir_all(dir).map_err(|error| error::io(dir, &error))?;
        let (mark, durable) = mark::Mark::open(dir)?;
        let mut options = options::OpenOptions::new(options);
        // One that lacks the file that names the others is no new database.
        options.database.create_if_missing(durable.is_none());
        let areas = Area::ALL.map(|area| (area.column_family(), options.of(area)));
        let db = DB::open_cf_with_opts(&options.database, dir, areas)
            .map_err(|error| error::store(&format!("cannot open {}", dir.display()), &error))?;
        let store = Self { shared: Arc::new(Shared { db, options, dir: dir.to_owned(), mark, failed: Mutex::new(None) }) };
        store.claim(owner, durable)?;
        Ok(store)
    }

    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// An empty batch over all areas.
    pub fn batch(&self) -> RocksBatch {
        RocksBatch::new(self.clone())
    }

    /// Writes a batch, all or nothing. Survives `kill -9` at once, power loss after [`RocksStore::sync_wal`].
    ///
    /// # Errors
    /// See [`StoreError`]. After one every later write fails with the same error.
    pub fn write(&self, batch: RocksBatch) -> Result<(), StoreError> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// Makes all that was written durable, and moves the mark. What was loaded is in no write-ahead log: it must be flushed before.
    ///
    /// # Errors
    /// As for a write.
    pub fn sync_wal(&self) -> Result<(), StoreError> {
        self.check()?;
        let sequence = self.shared.db.latest_sequence_number();
        self.shared.db.flush_wal(true).map_err(|error| self.fail("cannot sync the write-ahead log", &error))?;
        self.shared.mark.move_to(sequence).map_err(|error| self.keep_failure(error))
    }

    /// Reads one value of an area.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn get_raw(&self, area: Area, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.db.get_cf(self.handle(area)?, key).map_err(|error| error::store("cannot read", &error))
    }

    /// Visits the records of an area from `from` (inclusive) to `to` (exclusive; `None`: the end), in key order.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn scan_raw(
        &self,
        area: Area,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ScanFlow,
    ) -> Result<(), StoreError> {
        let mut records = self.iterator(area, from, to)?;
        records.seek(from);
        while let Some((key, value)) = records.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            records.next();
        }
        records.status().map_err(|error| error::store("cannot scan", &error))
    }

    /// What the database uses now.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn stats(&self) -> Result<StoreStats, StoreError> {
        let mut stats = StoreStats {
            cache_bytes: self.shared.options.cache.get_usage() as u64,
            pinned_bytes: self.shared.options.cache.get_pinned_usage() as u64,
            stall_us: self.shared.options.database.get_ticker_count(Ticker::StallMicros),
            wal_syncs: self.shared.options.database.get_ticker_count(Ticker::WalFileSynced),
            ..StoreStats::default()
        };
        for area in Area::ALL {
            stats.sst_bytes += self.number(area, properties::TOTAL_SST_FILES_SIZE)?;
            stats.memtable_bytes += self.number(area, properties::SIZE_ALL_MEM_TABLES)?;
            stats.compaction_pending_bytes += self.number(area, properties::ESTIMATE_PENDING_COMPACTION_BYTES)?;
            stats.write_stopped |= self.number(area, properties::IS_WRITE_STOPPED)? != 0;
        }
        Ok(stats)
    }

    fn number(&self, area: Area, name: &properties::PropName) -> Result<u64, StoreError> {
        let value = self.shared.db.property_int_value_cf(self.handle(area)?, name);
        Ok(value.map_err(|error| error::store("cannot read a statistic", &error))?.unwrap_or(0))
    }

    fn handle(&self, area: Area) -> Result<&rocksdb::ColumnFamily, StoreError> {
        self.shared
            .db
            .cf_handle(area.column_family())
            .ok_or_else(|| StoreError::Corrupt(format!("no column family {}", area.column_family())))
    }

    fn iterator(&self, area: Area, from: &[u8], to: Option<&[u8]>) -> Result<DBRawIterator<'_>, StoreError> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(from);
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        Ok(self.shared.db.raw_iterator_cf_opt(self.handle(area)?, options))
    }

    fn write_opt(&self, batch: RocksBatch, how: &WriteOptions) -> Result<(), StoreError> {
        self.check()?;
        let batch = batch.into_inner()?;
        if batch.is_empty() {
            return Ok(());
        }
        self.shared.db.write_opt(batch, how).map_err(|error| self.fail("cannot write", &error))
    }

    fn check(&self) -> Result<(), StoreError> {
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&self, what: &str, error: &rocksdb::Error) -> StoreError {
        self.keep_failure(error::store(&format!("{what} in {}", self.shared.dir.display()), error))
    }

    fn keep_failure(&self, error: StoreError) -> StoreError {
        self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error).clone()
    }

    fn changes(&self, changes: &[Change]) -> RocksBatch {
        let bytes = |change: &Change| CHANGE_BYTES + change.key.bytes.len() + change.value.as_ref().map_or(0, Vec::len);
        let mut batch = RocksBatch::with_capacity(self.clone(), changes.iter().map(bytes).sum());
        for change in changes {
            batch.change(change);
        }
        batch
    }
}

impl StateStore for RocksStore {
    fn handle(&self) -> Box<dyn StateStore> {
        Box::new(self.clone())
    }

    fn get(&self, task: TaskId, key: &StateKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.get_raw(Area::State, &database_key(task, key.family, &key.bytes))
    }

    fn scan(
        &self,
        task: TaskId,
        family: KeyFamily,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ScanFlow,
    ) -> Result<(), StoreError> {
        let end = after_prefix(&database_key(task, family, prefix));
        let start = database_key(task, family, prefix.max(from));
        if end.as_ref().is_some_and(|end| start >= *end) {
            return Ok(());
        }
        let head = task_prefix(task).len() + 1;
        self.scan_raw(Area::State, &start, end.as_deref(), &mut |key, value| visit(key.get(head..).unwrap_or_default(), value))
    }

    fn tasks(&self) -> Result<Vec<TaskId>, StoreError> {
        let mut tasks = Vec::new();
        let mut from = Some(Vec::new());
        // From the first key of a task to the first of the next.
        while let Some(start) = from.take() {
            self.scan_raw(Area::State, &start, None, &mut |key, _| {
                let found = task_of(key);
                tasks.extend(found);
                from = found.and_then(|id| after_prefix(&task_prefix(id)));
                ScanFlow::Break(())
            })?;
        }
        Ok(tasks)
    }

    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError> {
        self.write(self.changes(&changes))
    }

    fn load(&mut self, batch: &mut LoadBatch) -> Result<(), StoreError> {
        self.check()?;
        let handle = self.handle(Area::State)?;
        let mut writes = WriteBatch::with_capacity_bytes(batch.bytes());
        for (key, value) in batch.last_values() {
            match value {
                Some(value) => writes.put_cf(handle, key, value),
                None => writes.delete_cf(handle, key),
            }
        }
        let mut how = WriteOptions::default();
        how.disable_wal(true);
        self.shared.db.write_opt(writes, &how).map_err(|error| self.fail("cannot write", &error))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let mut how = FlushOptions::default();
        how.set_wait(true);
        self.shared.db.flush_cf_opt(self.handle(Area::State)?, &how).map_err(|error| self.fail("cannot flush", &error))
    }

    fn wipe(&mut self, task: TaskId) -> Result<(), StoreError> {
        // Deleting a range leaves a mark that every later look at the range must pass: not where there is nothing.
        let mut is_empty = true;
        let prefix = task_prefix(task);
        let end = after_prefix(&prefix);
        self.scan_raw(Area::State, &prefix, end.as_deref(), &mut |_, _| {
            is_empty = false;
            ScanFlow::Break(())
        })?;
        if is_empty {
            return Ok(());
        }
        // In two writes, the first one synced: whatever comes between, data without a Position are never taken for state.
        let mut position = self.batch();
        position.change(&Change { task, key: StateKey::position(), value: None });
        let mut how = WriteOptions::default();
        how.set_sync(true);
        self.write_opt(position, &how)?;
        let mut rest = self.batch();
        rest.delete_range(Area::State, &prefix, &end.unwrap_or_else(|| vec![u8::MAX; prefix.len() + 1]));
        self.write(rest)
    }
}
