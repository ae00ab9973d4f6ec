//! What the handles of one embedded log share, and the two locks in it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, sync::atomic::AtomicUsize, time::Duration};

use loopwarden_core::event::{NextOffset, TaskId};
use loopwarden_core::limits;
use loopwarden_state::RocksStore;

use crate::{InputNames, LogError};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Feed {
    Commands = 1,
    DeadLetters = 2,
}

impl Feed {
    pub const ALL: [Self; 2] = [Self::Commands, Self::DeadLetters];
}

/// How the embedded log behaves.
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Application: the first part of a lane's owner name.
    pub app: String,
    /// Name of this process.
    pub instance: String,
    /// Partitions of each stage's input. Fixed when the directory is made.
    pub partitions: u32,
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
pub(super) struct Extent {
    /// First number that exists.
    pub(super) start: u64,
    /// Number of the next record.
    pub(super) next: u64,
    /// Bytes ever appended.
    pub(super) appended_bytes: u64,
    /// Bytes that retention has removed.
    pub(super) removed_bytes: u64,
}

impl Extent {
    pub(super) const fn bytes(&self) -> u64 {
        self.appended_bytes.saturating_sub(self.removed_bytes)
    }
}

/// What the lock of M2 guards.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) inputs: BTreeMap<TaskId, Extent>,
    pub(super) feeds: BTreeMap<Feed, Extent>,
    pub(super) offsets: BTreeMap<TaskId, u64>,
    /// Batches written so far in this process.
    pub(super) written: u64,
    pub(super) unsynced_bytes: usize,
    /// Nothing may be written after a failed write or sync.
    pub(super) failed: Option<LogError>,
    pub(super) closing: bool,
    /// How often lanes were told to look up from waiting for records.
    pub(super) calls: u64,
}

#[derive(Debug, Default)]
pub(super) struct Durable {
    pub(super) written: u64,
    pub(super) feeds: BTreeMap<Feed, Extent>,
    pub(super) failed: Option<LogError>,
}

/// How far the log was written at some moment. For [`crate::embedded::EmbeddedBroker::wait_synced`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written(pub(super) u64);

pub(super) type Callback = Box<dyn Fn() + Send + Sync>;

/// What one commit of a lane has changed. Not synced yet: a power cut may still take it back.
#[derive(Debug, Clone, Copy)]
pub struct Committed<'a> {
    /// State rows by key; none: the row is gone.
    pub rows: &'a [(Vec<u8>, Option<Vec<u8>>)],
    /// How far its tasks are.
    pub offsets: &'a [(TaskId, NextOffset)],
    /// Next offset of each input that it has appended to: sums of swarms.
    pub ends: &'a [(TaskId, u64)],
}

pub(super) type CommitCallback = Box<dyn Fn(&Committed<'_>) + Send + Sync>;

pub(super) struct Shared {
    pub(super) store: RocksStore,
    pub(super) options: EmbeddedOptions,
    pub(super) writer: Mutex<Writer>,
    /// With `writer`: something is to be synced, or the end is near.
    pub(super) dirty: Condvar,
    /// With `writer`: records arrived, or lanes are to look up.
    pub(super) arrived: Condvar,
    pub(super) durable: Mutex<Durable>,
    /// With `durable`: a sync happened.
    pub(super) synced: Condvar,
    pub(super) callbacks: Mutex<Vec<Callback>>,
    /// Called after each commit of a lane.
    pub(super) commit_callbacks: Mutex<Vec<CommitCallback>>,
    /// How many wait for a commit.
    pub(super) awaited: AtomicUsize,
}

impl Shared {
    pub(super) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn durable(&self) -> MutexGuard<'_, Durable> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all writing. Readers keep what they may see.
    pub(super) fn fail(&self, writer: &mut Writer, error: &LogError) {
        writer.failed.get_or_insert_with(|| error.clone());
        self.durable().failed.get_or_insert_with(|| error.clone());
        self.arrived.notify_all();
        self.synced.notify_all();
    }
}
