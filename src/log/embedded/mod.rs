//! The log of one machine: events, outputs, swarm counts and state in one RocksDB, so that a `WriteBatch` is the transaction.
//!
//! No changelog, no restore, no unknown outcome: what a lane stages for the changelog *is* the state (page `commit`).
//!
//! ```text
//!   append ──► Events ──► poll ─ lane ─ commit ──► Outputs, State, offsets     one write-ahead log, one order
//!                                                     │
//!   sync thread: every 5 ms or 1 MiB ─────────────────┴──► readers see what is synced, appenders are answered
//! ```
//!
//! - M1: an append is answered after the sync that covers it.
//! - M2: appends and commits take one lock from numbering to writing: numbers have no gaps, and a crash cuts the same everywhere.
//! - M3: a reader sees an output only after it was synced; what was seen is never taken back or numbered anew.
//! - M5: partition *p* belongs to lane *p* mod lanes.

mod append;
mod lane;
mod layout;
mod reader;
mod record;
mod retention;
mod sync;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use append::{Append, Written};
pub use lane::EmbeddedLog;
pub use layout::Feed;
use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::limits;
use loopwarden_state::{Area, RocksStore, StoreError};
pub use reader::{EmbeddedEvent, EmbeddedOutput, EmbeddedReader, StateRow};
pub use retention::Retention;

use crate::{InputNames, LogError, Partitions};

/// Header of a tick record: a record without key and value that only says how late it is (rule I3).
pub const TICK_HEADER: &str = "lw_tick";

/// How the embedded log behaves.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Application: the first part of a lane's owner name.
    pub app: String,
    /// Name of this process.
    pub instance: String,
    /// Partitions of each stage's input. Fixed when the directory is made.
    pub partitions: u32,
    /// Lanes of the process.
    pub lanes: u32,
    /// Topic names that records carry.
    pub names: InputNames,
    /// Largest value that is decoded. Bytes.
    pub value_bytes_max: usize,
    /// Events held; an append beyond it is refused until retention has made room. Bytes.
    pub log_bytes_max: u64,
    /// Longest time between two syncs while something is unsynced.
    pub sync_wait_max: Duration,
    /// Unsynced bytes that are synced without further wait.
    pub sync_bytes: usize,
    /// Records that one poll hands over at most.
    pub poll_records_max: usize,
    /// Bytes that one poll hands over at most; the first record always fits.
    pub poll_bytes_max: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            app: "loopwarden".to_owned(),
            instance: "lw-0".to_owned(),
            partitions: 8,
            lanes: 1,
            names: InputNames::default(),
            value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            log_bytes_max: 8 << 30,
            sync_wait_max: Duration::from_millis(5),
            sync_bytes: 1 << 20,
            poll_records_max: 1_000,
            poll_bytes_max: 4 << 20,
        }
    }
}

/// Numbers in use of one input partition or output feed, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Extent {
    /// First number that exists.
    start: u64,
    /// Number of the next record.
    next: u64,
    /// Bytes ever appended.
    appended_bytes: u64,
    /// Bytes that retention has removed.
    removed_bytes: u64,
}

impl Extent {
    const fn bytes(&self) -> u64 {
        self.appended_bytes.saturating_sub(self.removed_bytes)
    }
}

/// What the lock of M2 guards.
#[derive(Debug, Default)]
struct Writer {
    inputs: BTreeMap<TaskId, Extent>,
    feeds: BTreeMap<Feed, Extent>,
    /// Committed input offsets.
    offsets: BTreeMap<TaskId, u64>,
    /// Batches written so far in this process.
    written: u64,
    unsynced_bytes: usize,
    /// Nothing may be written after a failed write or sync.
    failed: Option<LogError>,
    closing: bool,
    /// How often lanes were told to look up from waiting for records.
    calls: u64,
}

/// What is synced.
#[derive(Debug, Default)]
struct Durable {
    written: u64,
    feeds: BTreeMap<Feed, Extent>,
    failed: Option<LogError>,
}

type Callback = Box<dyn Fn() + Send + Sync>;

struct Shared {
    store: RocksStore,
    options: EmbeddedOptions,
    writer: Mutex<Writer>,
    /// With `writer`: something is to be synced, or the end is near.
    dirty: Condvar,
    /// With `writer`: records arrived, or lanes are to look up.
    arrived: Condvar,
    durable: Mutex<Durable>,
    /// With `durable`: a sync happened.
    synced: Condvar,
    callbacks: Mutex<Vec<Callback>>,
}

impl Shared {
    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn durable(&self) -> MutexGuard<'_, Durable> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all writing. Readers keep what they may see.
    fn fail(&self, writer: &mut Writer, error: &LogError) {
        writer.failed.get_or_insert_with(|| error.clone());
        self.durable().failed.get_or_insert_with(|| error.clone());
        self.arrived.notify_all();
        self.synced.notify_all();
    }
}

/// A handle on the embedded log of this process; clones share it. It closes with the last handle: everything written is synced.
#[derive(Clone)]
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
    _sync: Arc<sync::SyncThread>,
}

impl std::fmt::Debug for EmbeddedBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedBroker").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl EmbeddedBroker {
    /// Opens the log in the database, or makes it.
    ///
    /// # Errors
    /// [`LogError::Fatal`]: `E0701` where the directory was made with another number of partitions, else the store's codes.
    pub fn open(store: RocksStore, options: EmbeddedOptions) -> Result<Self, LogError> {
        let mut writer = layout::load(&store, options.partitions)?;
        for stage in [Stage::Session, Stage::Swarm] {
            for partition in 0..options.partitions {
                writer.inputs.entry(TaskId { stage, partition }).or_default();
            }
        }
        for feed in Feed::ALL {
            writer.feeds.entry(feed).or_default();
        }
        // What the last process wrote is in the kernel at least; after this it may be seen.
        store.sync_wal().map_err(fatal)?;
        let durable = Durable { written: 0, feeds: writer.feeds.clone(), failed: None };
        let shared = Arc::new(Shared {
            store,
            options,
            writer: Mutex::new(writer),
            dirty: Condvar::new(),
            arrived: Condvar::new(),
            durable: Mutex::new(durable),
            synced: Condvar::new(),
            callbacks: Mutex::new(Vec::new()),
        });
        let sync = Arc::new(sync::SyncThread::start(Arc::clone(&shared))?);
        Ok(Self { shared, _sync: sync })
    }

    /// The log of a lane. A lane has one.
    #[must_use]
    pub fn lane(&self, lane: u32) -> EmbeddedLog {
        EmbeddedLog::new(self.clone(), lane)
    }

    /// A reader of outputs and state rows.
    #[must_use]
    pub fn reader(&self) -> EmbeddedReader {
        EmbeddedReader::new(self.clone())
    }

    /// The database, for the lanes' state.
    #[must_use]
    pub fn store(&self) -> RocksStore {
        self.shared.store.clone()
    }

    /// Partitions of each stage's input.
    #[must_use]
    pub fn partitions(&self) -> Partitions {
        Partitions { session: self.shared.options.partitions, swarm: self.shared.options.partitions }
    }

    /// Lanes that wait for records look up at once: there is a question for them, which would wait as long as they do.
    pub fn call_lanes(&self) {
        self.shared.writer().calls += 1;
        self.shared.arrived.notify_all();
    }

    /// First and next offset of a task's input.
    #[must_use]
    pub fn input_range(&self, task: TaskId) -> std::ops::Range<u64> {
        self.shared.writer().inputs.get(&task).map_or(0..0, |extent| extent.start..extent.next)
    }

    /// The committed input offset of a task.
    #[must_use]
    pub fn committed(&self, task: TaskId) -> Option<u64> {
        self.shared.writer().offsets.get(&task).copied()
    }

    /// Bytes of events and swarm counts that are kept.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.shared.writer().inputs.values().map(Extent::bytes).sum()
    }

    /// Calls back after each sync, on the sync thread: to wake readers that wait without a thread of their own. The callback must
    /// not block, and must not hold an [`EmbeddedBroker`]: the log would never close.
    pub fn on_synced(&self, callback: impl Fn() + Send + Sync + 'static) {
        self.shared.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(callback));
    }

    /// Waits until everything that is written now is synced; at most `wait`. Whether it is.
    ///
    /// # Errors
    /// [`LogError::Fatal`] after a failed write or sync.
    pub fn wait_synced(&self, written: Written, wait: Duration) -> Result<bool, LogError> {
        let durable = self.shared.durable();
        let waited = self
            .shared
            .synced
            .wait_timeout_while(durable, wait, |durable| durable.written < written.0 && durable.failed.is_none());
        let (durable, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if durable.written >= written.0 {
            return Ok(true);
        }
        durable.failed.clone().map_or(Ok(false), Err)
    }
}

/// A store's error ends the process, with its code.
fn fatal(error: StoreError) -> LogError {
    let (code, message) = match error {
        StoreError::Locked(message) => ("E0401", message),
        StoreError::NewerFormat(message) => ("E0402", message),
        StoreError::DiskFull(message) => ("E0403", message),
        StoreError::Corrupt(message) => ("E0404", message),
        StoreError::OtherOwner(message) => ("E0405", message),
        StoreError::Io(message) => ("E0406", message),
    };
    LogError::Fatal { code, message }
}

fn corrupt(what: &str) -> LogError {
    fatal(StoreError::Corrupt(what.to_owned()))
}

/// Sees a key and its value; says whether to go on.
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<std::ops::ControlFlow<()>, LogError> + 'a;

/// Reads records of an area between two keys; `read` says whether to go on.
fn scan(store: &RocksStore, area: Area, from: &[u8], to: &[u8], read: &mut Visit<'_>) -> Result<(), LogError> {
    let mut failed = None;
    let scanned = store.scan_raw(area, from, Some(to), &mut |key, value| match read(key, value) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            std::ops::ControlFlow::Break(())
        }
    });
    scanned.map_err(fatal)?;
    failed.map_or(Ok(()), Err)
}
