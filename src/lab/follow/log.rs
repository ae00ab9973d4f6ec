//! One log that is followed: what its files are, and whether they have changed.

use std::path::{Path, PathBuf};
use std::{io, io::Read as _, os::unix::fs::MetadataExt as _};

use loopwarden_core::event::EventTime;

use crate::{file::FileInput, file::session_name, follow::document::Document, follow::lines::Lines, follow::lines::ReadPosition};
use loopwarden_sources::transcript::{Detected, Format, Layout, Made, PIECE_BYTES_MAX, detect, is_undecided};

/// First bytes by which a log is told; doubled while they say nothing. Fewer than a replay takes: at the first look all logs of a home
/// are looked into.
const HEAD_BYTES: usize = 4 * 1024;

/// A log, one file or a directory of events.
#[derive(Debug)]
pub(super) struct FollowedLog {
    /// Files, bytes and the last change of them, when it was last read to its end.
    seen: Option<Stamp>,
    /// Where an earlier process ended, until it is known what the log is.
    known: Option<ReadPosition>,
    kind: Option<(Format, Kind)>,
    /// Number of the look at which it last grew.
    grew_at: u64,
}

#[derive(Debug)]
enum Kind {
    Lines(Lines),
    Document(Document),
}

/// By what a change is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    files: usize,
    bytes: u64,
    /// The latest of their changes: seconds since 1970 and nanoseconds.
    changed: (i64, i64),
}

impl FollowedLog {
    pub(super) const fn new(known: Option<ReadPosition>) -> Self {
        Self { seen: None, known, kind: None, grew_at: 0 }
    }

    /// Passes over all that is there.
    pub(super) fn pass(&mut self, files: &[PathBuf], told: &mut Vec<String>) {
        let Some(stamp) = stamp(files) else { return };
        if let Err(error) = self.passed(files) {
            tell(files, &error, told);
        }
        self.seen = Some(stamp);
    }

    fn passed(&mut self, files: &[PathBuf]) -> io::Result<()> {
        match self.kind(files)? {
            Some(Kind::Lines(lines)) => lines.pass(files),
            Some(Kind::Document(document)) => document.read(files, &mut Vec::new()).map(drop),
            None => Ok(()),
        }
    }

    /// Adds the events of what is new, of about `room_bytes`, with the times they stand in line by. How many bytes were read, and whether
    /// more is there.
    pub(super) fn read(
        &mut self,
        files: &[PathBuf],
        look: u64,
        room_bytes: usize,
        events: &mut Vec<(EventTime, Made)>,
        told: &mut Vec<String>,
    ) -> (usize, bool) {
        // Before it is read: what is written meanwhile is another change.
        let Some(stamp) = stamp(files).filter(|stamp| self.seen != Some(*stamp)) else { return (0, false) };
        let mut made = Vec::new();
        let read = match self.kind(files) {
            Ok(Some(Kind::Lines(lines))) => lines.read(files, room_bytes, &mut made, told),
            Ok(Some(Kind::Document(document))) => document.read(files, &mut made).map(|bytes| (bytes, false)),
            Ok(None) => Ok((0, false)),
            Err(error) => Err(error),
        };
        let (bytes, is_more) = read.unwrap_or_else(|error| {
            tell(files, &error, told);
            (0, false)
        });
        if !is_more {
            self.seen = Some(stamp);
        }
        if !made.is_empty() {
            self.grew_at = look;
        }
        let mut time = EventTime(i64::MIN);
        events.extend(made.into_iter().map(|made| {
            time = made.time.map_or(time, |made| made.max(time));
            (time, made)
        }));
        (bytes, is_more)
    }

    /// What the log is; nothing where it is none, or is too short to say.
    fn kind(&mut self, files: &[PathBuf]) -> io::Result<Option<&mut Kind>> {
        if self.kind.is_none()
            && let Some(first) = files.first()
            && let Detected::Log(format, layout) = head(first).map(|head| detect(&head))?
        {
            let name = session_name(&FileInput::Path(first.clone()));
            let kind = match (layout, self.known.take()) {
                (Layout::Lines, known) if files.len() == 1 => Kind::Lines(Lines::new(format, name, known)),
                (_, known) => Kind::Document(Document::new(format, name, known)),
            };
            self.kind = Some((format, kind));
        }
        Ok(self.kind.as_mut().map(|(_, kind)| kind))
    }

    pub(super) fn place(&self) -> Option<ReadPosition> {
        match &self.kind {
            Some((_, Kind::Lines(lines))) => Some(lines.place()),
            Some((_, Kind::Document(document))) => Some(document.place()),
            None => self.known,
        }
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.kind.as_ref().map(|(format, _)| *format)
    }

    /// The look at which it last grew, where its state is kept.
    pub(super) fn warm_since(&self) -> Option<u64> {
        match &self.kind {
            Some((_, Kind::Lines(lines))) if lines.is_warm() => Some(self.grew_at),
            Some((_, Kind::Document(document))) if document.is_warm() => Some(self.grew_at),
            _ => None,
        }
    }

    /// Gives back what can be read again.
    pub(super) fn cool(&mut self) {
        match &mut self.kind {
            Some((_, Kind::Lines(lines))) => lines.cool(),
            Some((_, Kind::Document(document))) => document.cool(),
            None => {}
        }
    }
}

/// None where a file went away since the directory was read.
fn stamp(files: &[PathBuf]) -> Option<Stamp> {
    let mut stamp = Stamp { files: files.len(), bytes: 0, changed: (0, 0) };
    for file in files {
        let about = std::fs::metadata(file).ok()?;
        stamp.bytes += about.len();
        stamp.changed = stamp.changed.max((about.mtime(), about.mtime_nsec()));
    }
    Some(stamp)
}

/// As many of the first bytes as say whose it is, and a piece's at most.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut head, mut bytes_max) = (std::fs::File::open(path)?, Vec::new(), HEAD_BYTES);
    loop {
        (&mut file).take((bytes_max - head.len()) as u64).read_to_end(&mut head)?;
        if head.len() < bytes_max || bytes_max >= PIECE_BYTES_MAX || !is_undecided(&head) {
            return Ok(head);
        }
        bytes_max = (2 * bytes_max).min(PIECE_BYTES_MAX);
    }
}

fn tell(files: &[PathBuf], error: &io::Error, told: &mut Vec<String>) {
    let name = files.first().map(|file| file.display().to_string()).unwrap_or_default();
    told.push(format!("cannot read {name}: {error}"));
}
