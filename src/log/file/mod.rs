//! Replay: a log that reads files and writes to no topic.
//!
//! Input is NDJSON, plain, gzip or zstd, by content; several files are read one after the other. One thread reads and hands chunks
//! to the lanes; it looks only for the three fields that place a record.
//!
//! - *Line numbers* count from 0 and go on from file to file, empty lines included: one order over all input. [`FileReplay::locate`]
//!   says which file and line a number is.
//! - Without `_record`, offset = line number, partition = murmur2 of the session mod 24, whatever the lanes; timestamp = the event's
//!   `time`, without one that of the line before (first: 0). What has no readable session goes to partition 0.
//! - With `_record` (`topic`, `partition`, `offset`, `timestamp`), the record stands where it stood, so ids match production's.
//! - Partition *p* of both stages belongs to lane *p* mod lanes.
//!
//! **Swarm counts** stay in the process. Reports of a commit wait until every lane has committed as far in the input, and reach the
//! swarm tasks in the order of that place, so that no lane runs ahead of another in event time, however threads are scheduled.

mod collector;
mod exchange;
mod input;
mod lane;
mod reader;
mod scan;

use std::sync::Arc;

use crate::limits;
use crate::log::InputNames;
use crate::log::LogError;

pub use collector::Collected;
pub use collector::Collector;
pub use input::FileInput;
pub use lane::FileLog;

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
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            app: "loopwarden".to_owned(),
            lanes: 1,
            names: InputNames::default(),
            value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            poll_records_max: 1_000,
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
    shared: Arc<exchange::Shared>,
}

impl FileReplay {
    /// Opens the inputs and begins to read them.
    ///
    /// # Errors
    /// [`LogError::Fatal`], `E0302`, for a file that cannot be read.
    pub fn open(inputs: Vec<FileInput>, options: &FileOptions) -> Result<Self, LogError> {
        for input in &inputs {
            input.check()?;
        }
        let lanes = options.lanes.max(1);
        let shared = Arc::new(exchange::Shared::new(lanes));
        let collector = Collector::new(Arc::clone(&shared));
        reader::start(inputs, options, Arc::clone(&shared))?;
        let lanes = (0..lanes).map(|lane| FileLog::new(lane, options, Arc::clone(&shared), collector.clone())).collect();
        Ok(Self { lanes, collector, shared })
    }

    /// Name of the input and line in it, from 0, of a line number.
    #[must_use]
    pub fn locate(&self, line: u64) -> Option<(String, u64)> {
        self.shared.locate(line)
    }
}
