//! Lines of a stream, bounded. A line that is too long comes in pieces, and nobody reads those.

use std::io;
use std::io::{BufRead as _, BufReader, Read};

/// Longest line that is read. Bytes. A longer one passes.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What one read holds. Bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// A piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece {
    /// One whole line with its end; the last one of a stream may have none.
    Line,
    /// A part of a longer line; whether it is its end.
    Part { is_last: bool },
}

/// Reads a stream line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    inner: BufReader<R>,
    bytes_max: usize,
    is_within: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(inner: R, bytes_max: usize) -> Self {
        Self { inner: BufReader::with_capacity(BUFFER_BYTES, inner), bytes_max, is_within: false }
    }

    /// The next piece, into an empty buffer; none at the end.
    pub(crate) fn next(&mut self, piece: &mut Vec<u8>) -> io::Result<Option<Piece>> {
        piece.clear();
        loop {
            let bytes = match self.inner.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(bytes.len()).min(self.bytes_max.saturating_sub(piece.len()).max(1));
            piece.extend_from_slice(bytes.get(..taken).unwrap_or(bytes));
            let is_end = bytes.is_empty() || end == Some(taken);
            self.inner.consume(taken);
            if is_end {
                if piece.is_empty() {
                    return Ok(None);
                }
                let is_part = std::mem::take(&mut self.is_within);
                return Ok(Some(if is_part { Piece::Part { is_last: true } } else { Piece::Line }));
            }
            if self.is_within || piece.len() >= self.bytes_max {
                self.is_within = true;
                return Ok(Some(Piece::Part { is_last: false }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(1).min(into.len());
            self.0.read(&mut into[..length])
        }
    }

    fn pieces(stream: impl Read) -> Vec<(Piece, String)> {
        let (mut lines, mut piece, mut out) = (Lines::new(stream, 4), Vec::new(), Vec::new());
        while let Some(kind) = lines.next(&mut piece).unwrap() {
            out.push((kind, String::from_utf8(piece.clone()).unwrap()));
        }
        out
    }

    #[test]
    fn a_line_comes_whole_and_a_long_one_in_pieces() {
        let line = |text: &str| (Piece::Line, text.to_owned());
        let part = |is_last, text: &str| (Piece::Part { is_last }, text.to_owned());
        assert_eq!(pieces(&b"a\n\nbcd\ne"[..]), [line("a\n"), line("\n"), line("bcd\n"), line("e")]);
        assert_eq!(pieces(Slow(b"a\n\nbcd\ne")), pieces(&b"a\n\nbcd\ne"[..]));
        assert_eq!(pieces(&b"abcdef\nx\n"[..]), [part(false, "abcd"), part(true, "ef\n"), line("x\n")]);
        assert_eq!(pieces(&b"abcd\n"[..]), [part(false, "abcd"), part(true, "\n")]);
        assert_eq!(pieces(&b""[..]), []);
    }

    #[test]
    fn a_long_line_without_an_end_passes_whole() {
        let together: String = pieces(Slow(b"abcdefghij")).into_iter().map(|(_, text)| text).collect();
        assert_eq!(together, "abcdefghij");
    }
}
