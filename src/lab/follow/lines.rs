//! A log of lines that is followed. It only grows; one that is shorter than before has begun anew.

use std::io::{BufReader, Seek as _, SeekFrom};
use std::{fs::File, io, path::PathBuf};

use loopwarden_sources::transcript::{Converter, Format, Made, PIECE_BYTES_MAX};
use serde::{Deserialize, Serialize};

use crate::file::line::read_line;

/// How far one log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadPosition {
    /// Of a log of lines: its bytes.
    Bytes(u64),
    /// Of a document, which is written anew each time: its events.
    Events(u64),
}

/// Lines of one look that are told as left out.
const TOLD_MAX: usize = 100;

/// How far a log is read, and the state of its converter.
#[derive(Debug)]
pub(super) struct Lines {
    format: Format,
    name: String,
    /// Events of the lines before this byte are out.
    out_bytes: u64,
    warm: Option<Box<Warm>>,
}

/// A converter that has seen so many bytes.
#[derive(Debug)]
struct Warm {
    converter: Converter,
    bytes: u64,
}

impl Lines {
    pub(super) const fn new(format: Format, name: String, known: Option<ReadPosition>) -> Self {
        // What was a document before, and is none now, is another log.
        let out_bytes = match known {
            Some(ReadPosition::Bytes(bytes)) => bytes,
            Some(ReadPosition::Events(_)) | None => 0,
        };
        Self { format, name, out_bytes, warm: None }
    }

    /// Passes over all that is there; a line that is not whole yet still counts.
    pub(super) fn pass(&mut self, files: &[PathBuf]) -> io::Result<()> {
        let Some(path) = files.first() else { return Ok(()) };
        self.out_bytes = std::fs::metadata(path)?.len();
        Ok(())
    }

    /// Adds the events of new lines, of about `room_bytes`. How many bytes they had, and whether more is there.
    pub(super) fn read(
        &mut self,
        files: &[PathBuf],
        room_bytes: usize,
        made: &mut Vec<Made>,
        told: &mut Vec<String>,
    ) -> io::Result<(usize, bool)> {
        let Some(path) = files.first() else { return Ok((0, false)) };
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        if length < self.out_bytes {
            (self.out_bytes, self.warm) = (0, None);
        }
        if length == self.out_bytes {
            return Ok((0, false));
        }
        let warm =
            self.warm.get_or_insert_with(|| Box::new(Warm { converter: Converter::new(self.format, &self.name), bytes: 0 }));
        file.seek(SeekFrom::Start(warm.bytes))?;
        let (mut source, mut line, mut taken_bytes) = (BufReader::new(file), Vec::new(), 0);
        // One whose end has not come yet is read with it.
        while let Some(read) = read_line(&mut source, PIECE_BYTES_MAX, &mut line)?.filter(|read| read.is_whole) {
            warm.bytes += read.bytes;
            let before = made.len();
            if !line.trim_ascii().is_empty()
                && let Err(rejected) = warm.converter.piece(&line, made)
                && warm.bytes > self.out_bytes
                && told.len() < TOLD_MAX
            {
                told.push(format!("{}: the line that ends at byte {} is left out: {rejected}", path.display(), warm.bytes));
            }
            if warm.bytes <= self.out_bytes {
                made.truncate(before);
                continue;
            }
            self.out_bytes = warm.bytes;
            taken_bytes += read.bytes as usize;
            if taken_bytes >= room_bytes {
                return Ok((taken_bytes, true));
            }
        }
        Ok((taken_bytes, false))
    }

    pub(super) const fn place(&self) -> ReadPosition {
        ReadPosition::Bytes(self.out_bytes)
    }

    pub(super) const fn is_warm(&self) -> bool {
        self.warm.is_some()
    }

    pub(super) fn cool(&mut self) {
        self.warm = None;
    }
}
