//! Recorded events: files, or a range of a topic, and the log that hands them to a lane.
//!
//! Input is NDJSON, plain, gzip or zstd, by content; several files are read one after the other. Logs of agents are told by their
//! content too ([`loopwarden_sources::transcript`]), of a directory all that lie below it; their events come after those of other files, merged
//! by time. The reader looks only for the three fields that place a record.
//!
//! - *Line numbers* count from 0 and go on from file to file, empty lines included: one order over all input. [`RecordedInput::locate`]
//!   says which file and line a number is.
//! - Without `_record`, offset = line number, partition = murmur2 of the session mod 24, whatever the lanes; timestamp = the event's
//!   `time`, without one that of the line before (first: 0). What has no readable session goes to partition 0.
//! - With `_record` (`topic`, `partition`, `offset`, `timestamp`), the record stands where it stood, so ids match production's.
//! - Partition *p* of both stages belongs to lane *p* mod lanes.
//! - A range of a topic reads as files whose every line has a `_record`; its lines are numbered in the order of record timestamps.
//!
//! A thread reads, in rounds: a chunk of lines for each lane. [`RecordedLog`] is what a lane reads them from; whoever takes the rounds
//! feeds it.

mod block;
mod chunk;
pub(crate) mod folder;
mod input;
pub(crate) mod line;
mod log;
mod logs;
mod options;
pub(crate) mod pieces;
mod read;
mod reader;
mod rounds;
mod scan;
mod topic;

use std::{collections::BTreeMap, sync::Arc, sync::atomic::AtomicU64, sync::mpsc::RecvTimeoutError, time::Duration};

pub(crate) use chunk::{Chunk, Given, Placing};
pub use input::{FileInput, open_named};
pub use log::{Collected, Published, RecordedLog};
pub(crate) use log::{Fed, InputState, Stepped, SumRecord};
pub(crate) use logs::session_name;
use loopwarden_core::event::Record;
use loopwarden_kafka::readers::range::KafkaRange;
use loopwarden_log::LogError;
pub use options::{FileOptions, REPLAY_PARTITIONS};
pub use read::{LogsRead, Refused};
pub use rounds::Round;

use loopwarden_sources::transcript::Format;

/// One wait for records that are visited.
const WAIT: Duration = Duration::from_secs(1);

/// What comes next of an input.
#[derive(Debug)]
pub enum Next {
    Round(Round),
    /// No round came within the wait.
    Nothing,
    End,
}

/// Recorded events that are being read by a thread of their own.
#[derive(Debug)]
pub struct RecordedInput {
    /// How much there is to read, as [`RecordedInput::progress`] counts it; 0 where nobody knows.
    pub total: u64,
    options: FileOptions,
    taken: rounds::Taken,
    state: Arc<read::ReadState>,
}

impl RecordedInput {
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
        let state = Arc::default();
        let taken = reader::start(groups, options, Arc::clone(&state))?;
        Ok(Self { total, options: options.clone(), taken, state })
    }

    /// Opens a range of a topic and begins to read it. Its records keep their places; `options.names` is not asked for the topic's name.
    ///
    /// # Errors
    /// [`LogError::Fatal`], `E0101`, when there can be no thread.
    pub fn open_topic(range: KafkaRange, options: &FileOptions) -> Result<Self, LogError> {
        let (total, state) = (range.total(), Arc::default());
        let taken = topic::start(range, options, Arc::clone(&state))?;
        Ok(Self { total, options: options.clone(), taken, state })
    }

    /// A log for each lane, to be fed with the rounds.
    pub fn logs(&self, writes_commands: bool) -> Vec<RecordedLog> {
        let log =
            |lane| RecordedLog::new(lane, &self.options).writing_commands(writes_commands).giving_back(self.taken.used.clone());
        (0..self.options.lanes.max(1)).map(log).collect()
    }

    /// The next round; waits for it.
    pub fn next(&self, wait: Duration) -> Next {
        match self.taken.rounds.recv_timeout(wait) {
            Ok(round) => Next::Round(round),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// Hands over every record that is left, in the order of the input where that is read for one lane.
    ///
    /// # Errors
    /// The input cannot be read to its end; what comes before was handed over.
    pub fn visit(&self, mut visit: impl FnMut(&Record<'_>)) -> Result<(), LogError> {
        loop {
            match self.next(WAIT) {
                Next::Round(round) => {
                    for chunk in round.chunks {
                        for line in &chunk.lines {
                            visit(&chunk.record(line, &self.options.names, self.options.value_bytes_max));
                        }
                        // A reader that is at its end, or has enough, needs no memory.
                        let _ = self.taken.used.try_send(chunk);
                    }
                }
                Next::Nothing => {}
                Next::End => return self.state.read().failed().map_or(Ok(()), Err),
            }
        }
    }

    /// What was read of logs of agents, by their kind. Complete at the end of the input.
    pub fn agent_logs(&self) -> BTreeMap<Format, LogsRead> {
        self.state.read().logs()
    }

    /// The first files of directories that were no logs, and how many there were.
    pub fn skipped(&self) -> (Vec<String>, u64) {
        self.state.read().skipped()
    }

    /// The first pieces of such logs that could not be read, and how many there were.
    pub fn refused(&self) -> (Vec<Refused>, u64) {
        self.state.read().refused()
    }

    /// Whether reading ended before the input did, at the first line that is no event. Known at the end of the input.
    pub fn is_cut(&self) -> bool {
        self.state.read().is_cut
    }

    /// Why the input, or a file found in a directory, could not be read to its end. Known at the end of the input.
    pub fn damaged(&self) -> Option<LogError> {
        self.state.read().damaged()
    }

    /// How much of the input is read so far: bytes of files as they lie on disk, records of a topic.
    pub fn progress(&self) -> Arc<AtomicU64> {
        self.state.progress()
    }

    /// Name of the input and line in it, from 0, of a line number.
    pub fn locate(&self, line: u64) -> Option<(String, u64)> {
        self.state.read().locate(line)
    }
}

impl Drop for RecordedInput {
    fn drop(&mut self) {
        self.state.abandon();
    }
}
