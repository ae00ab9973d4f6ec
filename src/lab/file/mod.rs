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

mod block;
mod collector;
mod exchange;
pub(crate) mod folder;
mod input;
mod lane;
mod line;
mod logs;
mod options;
pub(crate) mod pieces;
mod read;
mod reader;
mod rounds;
mod scan;
mod topic;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use collector::{Collected, Collector};
pub use input::FileInput;
pub use lane::FileLog;
pub(crate) use logs::session_name;
use loopwarden_kafka::readers::range::KafkaRange;
use loopwarden_log::LogError;
pub use options::{FileOptions, REPLAY_PARTITIONS};
pub use read::{LogsRead, Refused};
pub(crate) use watch::{LaneStats, Watch, Watcher};

use crate::transcript::Format;

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
    pub fn logs(&self) -> BTreeMap<Format, LogsRead> {
        self.shared.read().logs()
    }

    /// The first files of directories that were no logs, and how many there were.
    pub fn skipped(&self) -> (Vec<String>, u64) {
        self.shared.read().skipped()
    }

    /// The first pieces of such logs that could not be read, and how many there were.
    pub fn refused(&self) -> (Vec<Refused>, u64) {
        self.shared.read().refused()
    }

    /// Whether reading ended before the input did, at the first line that is no event. Known once every lane has come to its end.
    pub fn is_cut(&self) -> bool {
        self.shared.read().is_cut
    }

    /// Why the input could not be read to its end, where [`FileOptions::ends_at_damage`] makes that no failure of the lanes. Known
    /// once every lane has come to its end.
    pub fn damaged(&self) -> Option<LogError> {
        self.shared.read().damaged()
    }

    /// How much of the input is read so far: bytes of files as they lie on disk, records of a topic.
    pub fn read(&self) -> Arc<AtomicU64> {
        self.shared.reading()
    }

    /// Name of the input and line in it, from 0, of a line number.
    pub fn locate(&self, line: u64) -> Option<(String, u64)> {
        self.shared.read().locate(line)
    }
}
