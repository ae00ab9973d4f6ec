//! A file in blocks of whole lines: they are read where they lie, and never copied.

use std::io::{self, BufRead};
use std::ops::Range;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 256 * 1024;

/// Whole lines of a file.
#[derive(Debug)]
pub(crate) struct Block(Vec<u8>);

impl Block {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Where its lines stand, without their ends. Of a longer line than `bytes_max` one byte more than that is shown.
    pub(super) fn lines(&self, bytes_max: usize) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let bytes = &self.0;
        let mut start = 0;
        let newlines = memchr::memchr_iter(b'\n', bytes).map(Some).chain([None]);
        newlines.filter_map(move |newline| {
            let line = start..newline.unwrap_or(bytes.len());
            start = newline.map_or(bytes.len(), |at| at + 1);
            if newline.is_none() && line.is_empty() {
                return None;
            }
            let has_return = newline.is_some() && bytes.get(line.clone()).is_some_and(|line| line.ends_with(b"\r"));
            let end = line.end - usize::from(has_return);
            Some(line.start..end.min(line.start.saturating_add(bytes_max + 1)))
        })
    }
}

/// The blocks of a source.
pub(super) struct Blocks {
    source: Box<dyn BufRead + Send>,
    bytes_max: usize,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    /// Why nothing more can be read, until that is said.
    failed: Option<io::Error>,
}

impl Blocks {
    /// The lines of a source, of each as many bytes as [`Block::lines`] may show.
    pub(super) const fn new(source: Box<dyn BufRead + Send>, bytes_max: usize) -> Self {
        Self { source, bytes_max, rest: Vec::new(), failed: None }
    }

    /// The next block, in the memory given, whose bytes mean nothing; `None` at the end.
    ///
    /// # Errors
    /// By the source, after all lines that could be read whole.
    pub(super) fn next(&mut self, mut bytes: Vec<u8>) -> io::Result<Option<Block>> {
        let mut filled = self.rest.len();
        bytes.resize(filled + BLOCK_BYTES, 0);
        bytes.iter_mut().zip(self.rest.drain(..)).for_each(|(place, byte)| *place = byte);
        loop {
            let known = filled;
            if self.failed.is_none() {
                bytes.resize(known + BLOCK_BYTES, 0);
                filled += self.read(bytes.get_mut(known..).unwrap_or_default());
            }
            let read = bytes.get(known..filled).unwrap_or_default();
            if let Some(newline) = memchr::memrchr(b'\n', read) {
                self.rest.extend_from_slice(read.get(newline + 1..).unwrap_or_default());
                bytes.truncate(known + newline + 1);
                return Ok(Some(Block(bytes)));
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            if read.is_empty() {
                bytes.truncate(filled);
                return Ok(Some(bytes).filter(|bytes| !bytes.is_empty()).map(Block));
            }
            if filled > self.bytes_max.saturating_add(2) {
                bytes.truncate(filled);
                self.skip_line(&mut bytes);
                return Ok(Some(Block(bytes)));
            }
        }
    }

    /// Fills memory as far as the source goes; how far that is.
    fn read(&mut self, room: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Some(left) = room.get_mut(filled..).filter(|left| !left.is_empty()) {
            match self.source.read(left) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        filled
    }

    /// Drops what is left of a line too long to be an event, of which enough is known.
    fn skip_line(&mut self, bytes: &mut Vec<u8>) {
        // One byte more than is shown: a return in front of the end is taken for part of it.
        bytes.truncate(self.bytes_max.saturating_add(2));
        bytes.push(b'\n');
        loop {
            let skipped = match self.source.fill_buf() {
                Ok([]) => return,
                Ok(buffer) => memchr::memchr(b'\n', buffer).map_or((buffer.len(), false), |at| (at + 1, true)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.failed = Some(error);
                    return;
                }
            };
            self.source.consume(skipped.0);
            if skipped.1 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use proptest::prelude::*;

    use super::*;
    use crate::file::line::read_line;

    /// A source that gives a few bytes at a time, and may be damaged at its end.
    struct Trickle(Vec<u8>, usize, bool);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            if count == 0 && self.2 {
                return Err(io::Error::other("damaged"));
            }
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0.drain(..count);
            Ok(count)
        }
    }

    fn lines(source: Trickle, bytes_max: usize) -> (Vec<Vec<u8>>, bool) {
        let mut blocks = Blocks::new(Box::new(BufReader::with_capacity(7, source)), bytes_max);
        let mut lines = Vec::new();
        loop {
            match blocks.next(Vec::new()) {
                Ok(Some(block)) => lines.extend(block.lines(bytes_max).map(|at| block.bytes()[at].to_vec())),
                Ok(None) => return (lines, false),
                Err(_) => return (lines, true),
            }
        }
    }

    proptest! {
        #[test]
        fn lines_of_blocks_are_the_lines(
            pieces in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("a"), Just("bcdefgh"), Just("ü")], 0..60),
            bytes_max in 1_usize..12,
            trickle in 1_usize..40,
        ) {
            let bytes = pieces.concat().into_bytes();
            let mut source = BufReader::with_capacity(3, &bytes[..]);
            let (mut expected, mut line) = (Vec::new(), Vec::new());
            while read_line(&mut source, bytes_max, &mut line).unwrap().is_some() {
                expected.push(std::mem::take(&mut line));
            }
            prop_assert_eq!(lines(Trickle(bytes.clone(), trickle, false), bytes_max), (expected.clone(), false));
            // What follows the last end of a line may not be all of it.
            let (mut whole, is_damaged) = lines(Trickle(bytes.clone(), trickle, true), bytes_max);
            if !bytes.ends_with(b"\n") && whole.len() + 1 == expected.len() {
                whole.extend(expected.last().cloned());
            }
            prop_assert_eq!((whole, is_damaged), (expected, true));
        }
    }

    #[test]
    fn a_line_longer_than_a_block_is_one_line() {
        let long = vec![b'x'; 3 * BLOCK_BYTES];
        let source = || Trickle([&b"a\n"[..], &long, b"\nb"].concat(), 10_000, false);
        assert_eq!(lines(source(), 4 * BLOCK_BYTES).0, [b"a".to_vec(), long.clone(), b"b".to_vec()]);
        assert_eq!(lines(source(), 9).0, [b"a".to_vec(), vec![b'x'; 10], b"b".to_vec()]);
    }
}
