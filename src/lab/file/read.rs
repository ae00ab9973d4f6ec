//! What was read of the input, for the report of a replay. Complete at the end of the input.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_log::LogError;

use loopwarden_sources::transcript::{Format, Tally};

/// Refused pieces that are kept with their places; the rest is counted.
const REFUSED_KEPT: usize = 10_000;
/// Files of directories that are no logs, told by name.
const SKIPPED_NAMED: usize = 5;

/// What was read of the logs of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogsRead {
    /// Logs, files or directories.
    pub logs: u64,
    /// Events, and what was ignored, by kind.
    pub tally: Tally,
}

/// A piece that is none of its log: file, line from 1, why.
pub type Refused = (String, u64, String);

/// The input as far as it is read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// First line and name of each file.
    files: Vec<(u64, String)>,
    logs: BTreeMap<Format, LogsRead>,
    /// Pieces of logs that are none, the first of them.
    refused: Vec<Refused>,
    refused_total: u64,
    /// Files of directories that are no logs, the first of them.
    skipped: Vec<String>,
    skipped_total: u64,
    /// Reading ended before the input did: at the first line that is no event.
    pub(super) is_cut: bool,
    /// How reading ended; `None` before that.
    ended: Option<Result<(), LogError>>,
    /// The first file of several that could not be read to its end; the others were read all the same.
    left: Option<LogError>,
}

impl Read {
    /// A file begins at this line.
    pub(super) fn note_file(&mut self, first: u64, name: String) {
        self.files.push((first, name));
    }

    pub(super) fn note_log(&mut self, format: Format, tally: &Tally) {
        let read = self.logs.entry(format).or_default();
        read.logs += 1;
        read.tally.add(tally);
    }

    pub(super) fn note_refused(&mut self, refused: Vec<Refused>) {
        self.refused_total += refused.len() as u64;
        let room = REFUSED_KEPT.saturating_sub(self.refused.len());
        self.refused.extend(refused.into_iter().take(room));
    }

    /// A file cannot be read to its end, and the others are read all the same.
    pub(super) fn note_left(&mut self, why: LogError) {
        self.left.get_or_insert(why);
    }

    pub(super) fn note_skipped(&mut self, name: String) {
        self.skipped_total += 1;
        if self.skipped.len() < SKIPPED_NAMED {
            self.skipped.push(name);
        }
    }

    /// Why the input that was named could not be read to its end. Asked when the last round was taken.
    pub(super) fn failed(&self) -> Option<LogError> {
        let unknown = || LogError::Fatal { code: "E0302", message: "the reading thread ended before its input".to_owned() };
        self.ended.clone().map_or_else(|| Some(unknown()), Result::err)
    }

    /// The same, or why the first file that was found in a directory could not.
    pub(super) fn damaged(&self) -> Option<LogError> {
        self.failed().or_else(|| self.left.clone())
    }

    /// The first files that were no logs, and how many there were.
    pub(super) fn skipped(&self) -> (Vec<String>, u64) {
        (self.skipped.clone(), self.skipped_total)
    }

    /// What was read of logs, by their kind.
    pub(super) fn logs(&self) -> BTreeMap<Format, LogsRead> {
        self.logs.clone()
    }

    /// The first refused pieces, and how many there were.
    pub(super) fn refused(&self) -> (Vec<Refused>, u64) {
        (self.refused.clone(), self.refused_total)
    }

    /// The file of a line, and its number in it.
    pub(super) fn locate(&self, line: u64) -> Option<(String, u64)> {
        let (first, name) = self.files.iter().rev().find(|(first, _)| *first <= line)?;
        Some((name.clone(), line - first))
    }
}

/// What the reading thread and whoever takes its rounds share.
#[derive(Debug, Default)]
pub(super) struct ReadState {
    read: Mutex<Read>,
    /// How much of the input is read: bytes of files as they lie on disk, records of a topic.
    progress: Arc<AtomicU64>,
    is_abandoned: AtomicBool,
}

impl ReadState {
    /// What is known of the input.
    pub(super) fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_read(&self, amount: u64) {
        self.progress.fetch_add(amount, Ordering::Relaxed);
    }

    /// The counter itself, for readers that count by themselves.
    pub(super) fn progress(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.progress)
    }

    /// The reading thread is done.
    pub(super) fn end(&self, result: Result<(), LogError>) {
        self.read().ended = Some(result);
    }

    /// Nobody takes rounds any more.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }
}
