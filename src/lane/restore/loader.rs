//! The store's side of a restore: records of the changelog go in, and the Position with them or after them.

use loopwarden_core::event::TaskId;
use loopwarden_core::limits::{RESTORE_BATCH_BYTES, RESTORE_FLUSH_BYTES};
use loopwarden_log::Flow;
use loopwarden_state::{Change, Growth, KeyFamily, LoadBatch, Position, StateKey, StateStore, StoreError, read};

/// Loads one task.
pub(crate) struct Loader {
    id: TaskId,
    store: Box<dyn StateStore>,
    /// The Position in the store, or read since.
    pub(crate) position: Option<Position>,
    batch: LoadBatch,
    /// Loaded without a write-ahead log, not yet flushed.
    unflushed_bytes: u64,
    is_loaded: bool,
    /// When the store was last known to be at the end of its changelog: what is saved on the way there must not look younger.
    at_end_ms: i64,
    /// Read from the changelog.
    pub(crate) bytes: u64,
    /// Read from the changelog.
    pub(crate) records: u64,
}

impl Loader {
    pub(crate) fn new(id: TaskId, store: Box<dyn StateStore>) -> Self {
        Self {
            id,
            store,
            position: None,
            batch: LoadBatch::new(id),
            unflushed_bytes: 0,
            is_loaded: false,
            at_end_ms: 0,
            bytes: 0,
            records: 0,
        }
    }

    /// The Position that the store has.
    ///
    /// # Errors
    /// The store failed, or its state has another format (rule R2): values that look alike may mean something else.
    pub(crate) fn stored(&self) -> Result<Option<Position>, StoreError> {
        self.store.get(self.id, &StateKey::position())?.map(|bytes| Position::decode(&bytes)).transpose()
    }

    /// The growth of the input that has moved a part of the task's sessions, and maybe not all.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn growth(&self) -> Result<Option<Growth>, StoreError> {
        read(&*self.store, self.id, &[])
    }

    /// Goes on from what the store has.
    pub(crate) fn trust(&mut self, position: Position) {
        self.at_end_ms = position.at_end_ms;
        self.position = Some(position);
    }

    /// Begins with nothing. What is read from here on is as young as `now_ms`: its deletions stay in the log for long enough from then.
    pub(crate) fn begin_anew(&mut self, now_ms: i64) -> Result<(), StoreError> {
        self.at_end_ms = now_ms;
        self.position = None;
        self.batch.clear();
        self.store.wipe(self.id)
    }

    /// Takes one record of the changelog; stops where a batch is full.
    pub(crate) fn take(&mut self, offset: u64, key: &[u8], value: Option<&[u8]>) -> Result<Flow, StoreError> {
        let Some(family) = key.first().and_then(|byte| KeyFamily::from_byte(*byte)) else {
            return Err(StoreError::OtherFormat(format!("{}: unknown key in the changelog at offset {offset}", self.id)));
        };
        self.records += 1;
        self.bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        if family == KeyFamily::Position {
            self.position = value.map(Position::decode).transpose()?;
            return Ok(Flow::Continue);
        }
        self.batch.push(key, value);
        Ok(if self.batch.bytes() < RESTORE_BATCH_BYTES { Flow::Continue } else { Flow::Stop })
    }

    /// Writes the batch; from time to time, makes all of it durable up to the changelog offset `next`.
    pub(crate) fn load_up_to(&mut self, next: u64) -> Result<(), StoreError> {
        self.load()?;
        if self.unflushed_bytes < RESTORE_FLUSH_BYTES {
            return Ok(());
        }
        // Position never ahead of data: a second crash goes on from here.
        self.store.flush()?;
        self.unflushed_bytes = 0;
        // Halfway the state is a mixture of ages; whoever finds this Position reads on to the end before using it, and must know how
        // old the oldest part is: deletions of it may be in the tail that was not read.
        let position = self.position.clone().unwrap_or_default();
        let position = Position { changelog_next: next, at_end_ms: self.at_end_ms, ..position };
        self.store.commit(vec![self.position_change(&position)?])
    }

    fn load(&mut self) -> Result<(), StoreError> {
        if !self.batch.is_empty() {
            self.store.load(&mut self.batch)?;
            self.is_loaded = true;
            self.unflushed_bytes += self.batch.bytes() as u64;
            self.batch.clear();
        }
        Ok(())
    }

    /// Makes what was read durable, and with it the Position, which is returned.
    pub(crate) fn finish(&mut self, next: u64, position: Option<Position>, now_ms: i64) -> Result<Option<Position>, StoreError> {
        let position = position.map(|position| Position { changelog_next: next, at_end_ms: now_ms, ..position });
        if self.is_loaded {
            self.load()?;
            self.store.flush()?;
        }
        let mut changes = self.batch.to_changes();
        if let Some(position) = &position {
            changes.push(self.position_change(position)?);
        }
        self.store.commit(changes)?;
        self.batch.clear();
        Ok(position)
    }

    fn position_change(&self, position: &Position) -> Result<Change, StoreError> {
        Ok(Change { task: self.id, key: StateKey::position(), value: Some(position.encode_for_store()?) })
    }
}
