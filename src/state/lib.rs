//! Keyed state of tasks: `rocks` on disk, `memory` for tests, replay and simulation. Same trait, same contract suite.
//!
//! RocksDB is always a prefix of the committed changelog (invariant 3): [`StateStore::commit`] is called after the log has committed,
//! with one batch for all tasks of the lane, each task's Position inside.

mod board;
pub mod codec;
mod hash;
mod head;
mod keys;
mod load;
mod memory;
mod names;
mod position;
pub mod rekey;
pub mod report;
mod ring;
mod rocks;
pub mod session;
pub mod step;
pub mod stop;
pub mod swarm;
mod tenants;
mod timer;

pub use hash::state_hash;
pub use keys::{KeyFamily, StateKey, task_of, task_prefix};
pub use load::LoadBatch;
use loopwarden_core::event::TaskId;
pub use memory::MemoryStore;
pub use position::{Position, chain};
pub use rekey::Growth;
pub use ring::StoredRing;
pub use rocks::{Area, RocksBatch, RocksOptions, RocksStore, StoreOwner, StoreStats};
pub use tenants::TenantMinute;
pub use timer::{TimerKey, due_bytes};

/// One change of a task's state: a value, or a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub task: TaskId,
    pub key: StateKey,
    /// The new value; `None` deletes the key.
    pub value: Option<Vec<u8>>,
}

/// Errors by fate: every one of them ends the process, with its own code; the changelog has what was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The directory is in use by another process.
    #[error("E0401: {0}")]
    Locked(String),
    /// State written in a format that this program does not know.
    #[error("E0402: {0}")]
    OtherFormat(String),
    /// The disk has no space left.
    #[error("E0403: {0}")]
    DiskFull(String),
    /// Bytes that cannot be what was written.
    #[error("E0404: {0}")]
    Corrupt(String),
    /// The directory belongs to another instance, cluster or application, or to another kind of log.
    #[error("E0405: {0}")]
    OtherOwner(String),
    /// Any other input or output error.
    #[error("E0406: {0}")]
    Io(String),
}

impl StoreError {
    /// An error of the operating system about a file beside the database, sorted by fate; `what` names the file, or its use.
    pub fn of_io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        let message = format!("{what}: {error}");
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::DiskFull(message),
            _ => Self::Io(message),
        }
    }
}

/// A value that a task keeps under keys of one family.
pub trait Stored: Sized {
    const FAMILY: KeyFamily;

    /// Reads a value.
    ///
    /// # Errors
    /// As [`codec::decode`]; also for numbers that mean nothing.
    fn decode(bytes: &[u8]) -> Result<Self, StoreError>;

    /// Its bytes.
    ///
    /// # Errors
    /// As [`codec::encode`].
    fn encode(&self) -> Result<Vec<u8>, StoreError>;
}

/// Reads the value under a key of a task; `None` where there is none.
///
/// # Errors
/// See [`StoreError`].
pub fn read<S: Stored>(store: &dyn StateStore, task: TaskId, key: &[u8]) -> Result<Option<S>, StoreError> {
    store.get(task, &StateKey::new(S::FAMILY, key.to_vec()))?.map(|bytes| S::decode(&bytes)).transpose()
}

/// [`StateStore::scan`] with a visitor that may fail: its first failure ends the scan.
///
/// # Errors
/// See [`StoreError`].
pub fn try_scan(
    store: &dyn StateStore,
    task: TaskId,
    family: KeyFamily,
    prefix: &[u8],
    from: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ScanFlow, StoreError>,
) -> Result<(), StoreError> {
    let mut failed = None;
    store.scan(task, family, prefix, from, &mut |key, value| {
        visit(key, value).unwrap_or_else(|error| {
            failed = Some(error);
            ScanFlow::Break(())
        })
    })?;
    failed.map_or(Ok(()), Err)
}

/// Whether a scan goes on.
pub type ScanFlow = std::ops::ControlFlow<()>;

/// Keyed state of the tasks of one process. Handles share one database; a task has one owner at a time.
pub trait StateStore: Send {
    /// Another handle.
    fn handle(&self) -> Box<dyn StateStore>;

    /// Reads one value.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn get(&self, task: TaskId, key: &StateKey) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the keys of one family that begin with `prefix`, in key order, from `from` (a key of the family) on.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn scan(
        &self,
        task: TaskId,
        family: KeyFamily,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ScanFlow,
    ) -> Result<(), StoreError>;

    /// Every task of which anything is held.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn tasks(&self) -> Result<Vec<TaskId>, StoreError>;

    /// Writes changes of any number of tasks, all or nothing.
    ///
    /// # Errors
    /// See [`StoreError`]. After one the caller must not use the store again.
    fn commit(&mut self, changes: Vec<Change>) -> Result<(), StoreError>;

    /// Writes restored records without a write-ahead log; durable after [`StateStore::flush`] only (rule R4).
    ///
    /// # Errors
    /// See [`StoreError`].
    fn load(&mut self, batch: &mut LoadBatch) -> Result<(), StoreError>;

    /// Makes everything loaded durable.
    ///
    /// # Errors
    /// See [`StoreError`].
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Forgets a task: its Position first, durably, then the rest (rule R2).
    ///
    /// # Errors
    /// See [`StoreError`].
    fn wipe(&mut self, task: TaskId) -> Result<(), StoreError>;
}
