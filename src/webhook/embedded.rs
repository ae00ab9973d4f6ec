//! Commands of the embedded log.

use std::sync::{Arc, Mutex, PoisonError};
use std::{ops::ControlFlow, path::Path, time::Duration};

use loopwarden_log::embedded::{EmbeddedReader, Feed};
use loopwarden_log::{Destination, LogError, Output};

use crate::{position::PositionFile, source::Source};

/// The reader, to be taken away when the process ends: a request may take longer than that, and the log closes with its last reader.
pub type ReaderSlot = Arc<Mutex<Option<EmbeddedReader>>>;

/// Reads commands of the embedded log, and keeps its position in a file.
pub struct EmbeddedSource {
    reader: ReaderSlot,
    file: PositionFile,
    /// Behind the last one that is done with.
    next: u64,
    /// What the file says.
    kept: u64,
    /// Behind the one that was handed over last.
    taken: u64,
    lost: u64,
}

impl EmbeddedSource {
    /// Goes on where the file in `dir` says. Without one it begins at the end (`from_end`), or with the first command that is kept.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(reader: &ReaderSlot, dir: &Path, name: &str, from_end: bool) -> Result<Self, LogError> {
        let trouble = |error: std::io::Error| LogError::Transient(format!("the position in {}: {error}", dir.display()));
        let range = in_use(reader)?.range(Feed::Commands);
        let file = PositionFile::open(dir, name).map_err(trouble)?;
        let next = match file.read().map_err(trouble)? {
            // Before anything else: from here on nothing is left out.
            None => {
                let first = if from_end { range.end } else { range.start };
                file.write(first).map_err(trouble)?;
                first
            }
            // What was once read is never taken back: it is the position in another log.
            Some(kept) if kept > range.end => {
                tracing::warn!(webhook = name, "the log was begun anew: all commands that are kept are sent");
                range.start
            }
            Some(kept) => kept,
        };
        Ok(Self { reader: Arc::clone(reader), file, next, kept: next, taken: next, lost: 0 })
    }
}

/// The reader, for one use, or nothing when the process ends. The slot is not held meanwhile: others read too, and wait for long.
fn in_use(slot: &ReaderSlot) -> Result<EmbeddedReader, LogError> {
    let reader = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
    reader.ok_or_else(|| LogError::Lost("the log is closed".to_owned()))
}

impl Source for EmbeddedSource {
    fn next(&mut self, wait: Duration) -> Result<Option<Output>, LogError> {
        let reader = in_use(&self.reader)?;
        if !reader.wait(Feed::Commands, self.next, wait)? {
            return Ok(None);
        }
        let mut found = None;
        let behind = reader.read(Feed::Commands, self.next, &mut |output| {
            found = Some(output);
            ControlFlow::Break(())
        })?;
        let first = found.as_ref().map_or(behind, |output| output.sequence);
        self.lost += first.saturating_sub(self.next);
        self.next = first;
        self.taken = behind.max(first);
        Ok(found.map(|output| Output {
            destination: Destination::Commands,
            key: output.key,
            value: output.value,
            headers: output.headers.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect(),
            timestamp_ms: output.timestamp_ms,
        }))
    }

    fn hold(&mut self, wait: Duration) -> Result<bool, LogError> {
        drop(in_use(&self.reader)?);
        std::thread::park_timeout(wait);
        Ok(true)
    }

    fn done(&mut self) {
        self.next = self.taken;
    }

    fn keep(&mut self) -> Result<(), LogError> {
        if self.kept != self.next {
            let trouble = |error| LogError::Transient(format!("the position of a webhook cannot be written: {error}"));
            self.file.write(self.next).map_err(trouble)?;
            self.kept = self.next;
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn behind(&self) -> Option<u64> {
        let reader = in_use(&self.reader).ok()?;
        Some(reader.range(Feed::Commands).end.saturating_sub(self.next))
    }
}
