//! The handle of a process on its embedded log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_state::RocksStore;

use crate::embedded::shared::{Committed, Durable, EmbeddedOptions, Extent, Shared, Written};
use crate::embedded::{layout, sync};
use crate::{LogError, Partitions};
use crate::{embedded::scan::fatal, embedded::shared::Feed};

/// A handle on the embedded log of this process; clones share it. It closes with the last handle: everything written is synced.
#[derive(Clone)]
pub struct EmbeddedBroker {
    pub(super) shared: Arc<Shared>,
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
            commit_callbacks: Mutex::new(Vec::new()),
            awaited: AtomicUsize::new(0),
        });
        let sync = Arc::new(sync::SyncThread::start(Arc::clone(&shared))?);
        Ok(Self { shared, _sync: sync })
    }

    /// The database, for the lanes' state.
    pub fn store(&self) -> RocksStore {
        self.shared.store.clone()
    }

    /// Partitions of each stage's input.
    pub fn partitions(&self) -> Partitions {
        Partitions { session: self.shared.options.partitions, swarm: self.shared.options.partitions }
    }

    /// Lanes that wait for records look up at once: there is a question for them, which would wait as long as they do.
    pub fn call_lanes(&self) {
        self.shared.writer().calls += 1;
        self.shared.arrived.notify_all();
    }

    /// First and next offset of a task's input.
    pub fn input_range(&self, task: TaskId) -> std::ops::Range<u64> {
        self.shared.writer().inputs.get(&task).map_or(0..0, |extent| extent.start..extent.next)
    }

    /// The committed input offset of a task.
    pub fn committed(&self, task: TaskId) -> Option<u64> {
        self.shared.writer().offsets.get(&task).copied()
    }

    /// Bytes of events and swarm counts that are kept.
    pub fn input_bytes(&self) -> u64 {
        self.shared.writer().inputs.values().map(Extent::bytes).sum()
    }

    /// Calls back after each sync, on the sync thread: to wake readers that wait without a thread of their own. The callback must
    /// not block, and must not hold an [`EmbeddedBroker`]: the log would never close.
    pub fn on_synced(&self, callback: impl Fn() + Send + Sync + 'static) {
        self.shared.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(callback));
    }

    /// Calls back after each commit of a lane, on its thread, before readers see what it says. The callback must not block, and must not
    /// hold an [`EmbeddedBroker`].
    pub fn on_committed(&self, callback: impl Fn(&Committed<'_>) + Send + Sync + 'static) {
        self.shared.commit_callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(callback));
    }

    /// Lanes commit what they read without a pause as long as this value lives.
    #[must_use]
    pub fn await_commits(&self) -> Awaiting {
        self.shared.awaited.fetch_add(1, Ordering::AcqRel);
        Awaiting(Arc::clone(&self.shared))
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

/// Somebody waits for commits. From [`EmbeddedBroker::await_commits`].
pub struct Awaiting(Arc<Shared>);

impl std::fmt::Debug for Awaiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Awaiting")
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::AcqRel);
    }
}
