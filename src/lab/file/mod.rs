//! Replay: a log that reads files, or a range of a topic, and writes to no topic.
//!
//! Input is NDJSON, plain, gzip or zstd, by content; several files are read one after the other. Logs of agents are told by their
//! content too ([`crate::transcript`]), of a directory all that lie below it; their events come after those of other files, merged
//! by time. One thread reads and hands chunks to the lanes; it looks only for the three fields that place a record.
//!
//! - *Line numbers* count from 0 and go on from file to file, empty lines included: one order over all input. [`FileReplay::locate`]
//!   says which file and line a number is.
//! - Without `_record`, offset = line number, partition = murmur2 of the session mod 24, whatever the lanes; timestamp = the event's
//!   `time`, without one that of the line before (first: 0). What has no readable session goes to partition 0.
//! - With `_record` (`topic`, `partition`, `offset`, `timestamp`), the record stands where it stood, so ids match production's.
//! - Partition *p* of both stages belongs to lane *p* mod lanes.
//! - A range of a topic reads as files whose every line has a `_record`; its lines are numbered in the order of record timestamps.
//!
//! **Swarm counts** stay in the process. A report belongs to the line of the last call it sums up, waits until every lane has committed
//! that line, and reaches the swarm tasks in the order of lines: no lane runs ahead of another in event time, however threads are
//! scheduled and however far apart commits are.

mod collector;
mod exchange;
mod folder;
mod input;
mod lane;
mod logs;
mod pieces;
mod reader;
mod rounds;
mod scan;
mod topic;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use collector::{Collected, Collector};
pub use input::FileInput;
pub use lane::FileLog;
pub use logs::{LogsRead, Refused};
use loopwarden_core::limits;
use loopwarden_kafka::range::KafkaRange;
use loopwarden_log::{InputNames, LogError};

use crate::transcript::Format;

/// Partitions of both stages in a replay, whatever the lanes: ids must not depend on them.
pub const REPLAY_PARTITIONS: u32 = 24;

/// How files are replayed.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// Application: the first part of a lane's owner name.
    pub app: String,
    /// Lanes.
    pub lanes: u32,
    /// Topic names that records carry where a line names none.
    pub names: InputNames,
    /// Largest value that is decoded. Bytes. Of a longer line only so much is kept that it is refused as too large.
    pub value_bytes_max: usize,
    /// Records that one poll hands over at most.
    pub poll_records_max: usize,
    /// Read no further than the first line that is no event, or the first piece of a log that is none.
    pub is_strict: bool,
    /// An input that cannot be read on is an end like another, told by [`FileReplay::damaged`]; else every lane fails with it.
    pub ends_at_damage: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            app: "loopwarden".to_owned(),
            lanes: 1,
            names: InputNames::default(),
            value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            poll_records_max: 1_000,
            is_strict: false,
            ends_at_damage: false,
        }
    }
}

/// A replay that has been opened: a log for each lane, and where their outputs go.
#[derive(Debug)]
pub struct FileReplay {
    /// A log for each lane.
    pub lanes: Vec<FileLog>,
    /// What the lanes committed.
    pub collector: Collector,
    /// How much there is to read, as [`FileReplay::read`] counts it; 0 where nobody knows.
    pub total: u64,
    shared: Arc<exchange::Shared>,
}

impl FileReplay {
    /// Opens the inputs and begins to read them.
    ///
    /// # Errors
    /// [`LogError::Fatal`], `E0302`, for a file that cannot be read.
    pub fn open(inputs: Vec<FileInput>, options: &FileOptions) -> Result<Self, LogError> {
        let mut groups = Vec::new();
        for input in inputs {
            groups.extend(folder::groups(input)?);
        }
        let sizes = groups.iter().flat_map(|group| &group.files).map(FileInput::bytes);
        let total = sizes.sum::<Option<u64>>().unwrap_or(0);
        let lanes = options.lanes.max(1);
        let shared = Arc::new(exchange::Shared::new(lanes));
        let collector = Collector::new(Arc::clone(&shared));
        reader::start(groups, options, Arc::clone(&shared))?;
        let lanes = (0..lanes).map(|lane| FileLog::new(lane, options, Arc::clone(&shared), collector.clone())).collect();
        Ok(Self { lanes, collector, total, shared })
    }

    /// Opens a range of a topic and begins to read it. The lanes read its records where they stand; `options.names` is not asked for
    /// the topic's name.
    ///
    /// # Errors
    /// [`LogError::Fatal`], `E0101`, when there can be no thread.
    pub fn open_topic(range: KafkaRange, options: &FileOptions) -> Result<Self, LogError> {
        let lanes = options.lanes.max(1);
        let shared = Arc::new(exchange::Shared::new(lanes));
        let collector = Collector::new(Arc::clone(&shared));
        let total = range.total();
        topic::start(range, options, Arc::clone(&shared))?;
        let lanes = (0..lanes).map(|lane| FileLog::new(lane, options, Arc::clone(&shared), collector.clone())).collect();
        Ok(Self { lanes, collector, total, shared })
    }

    /// What was read of logs of agents, by their kind. Complete once every lane has come to its end.
    #[must_use]
    pub fn logs(&self) -> BTreeMap<Format, LogsRead> {
        self.shared.logs()
    }

    /// The first files of directories that were no logs, and how many there were.
    #[must_use]
    pub fn skipped(&self) -> (Vec<String>, u64) {
        self.shared.skipped()
    }

    /// The first pieces of such logs that could not be read, and how many there were.
    #[must_use]
    pub fn refused(&self) -> (Vec<Refused>, u64) {
        self.shared.refused()
    }

    /// Whether reading ended before the input did, at the first line that is no event. Known once every lane has come to its end.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.shared.is_cut()
    }

    /// Why the input could not be read to its end, where [`FileOptions::ends_at_damage`] makes that no failure of the lanes. Known
    /// once every lane has come to its end.
    #[must_use]
    pub fn damaged(&self) -> Option<LogError> {
        self.shared.damaged()
    }

    /// How much of the input is read so far: bytes of files as they lie on disk, records of a topic.
    #[must_use]
    pub fn read(&self) -> Arc<AtomicU64> {
        self.shared.reading()
    }

    /// Name of the input and line in it, from 0, of a line number.
    #[must_use]
    pub fn locate(&self, line: u64) -> Option<(String, u64)> {
        self.shared.locate(line)
    }
}
