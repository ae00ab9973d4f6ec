//! The pieces of a log: a line each, or the elements of a document, read one at a time.

use std::{io, io::BufRead};

use crate::file::line::read_line;
use loopwarden_sources::transcript::Layout;

/// Where the pieces of one file come from.
pub(crate) struct Pieces {
    source: Box<dyn BufRead + Send>,
    layout: Layout,
    /// Line that comes next, from 1.
    line: u64,
}

impl Pieces {
    pub(crate) fn new(source: Box<dyn BufRead + Send>, layout: Layout) -> Self {
        Self { source, layout, line: 1 }
    }

    /// Line that comes next, from 1.
    pub(super) const fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next piece that is not empty into `piece`; the line it begins in, none at the end. Of a longer one than
    /// `bytes_max` one byte more than that stays, and the rest is dropped unseen.
    pub(crate) fn next(&mut self, piece: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<u64>> {
        piece.clear();
        match self.layout {
            Layout::Lines => {
                while piece.trim_ascii().is_empty() {
                    if read_line(&mut *self.source, bytes_max, piece)?.is_none() {
                        return Ok(None);
                    }
                    self.line += 1;
                }
                if self.line == 2 && piece.starts_with(b"\xef\xbb\xbf") {
                    piece.drain(..3);
                }
                Ok(Some(self.line - 1))
            }
            Layout::Document => self.element(piece, bytes_max),
        }
    }

    /// An object, or whatever else stands between commas. Where the document ends too early, so does its last element.
    fn element(&mut self, piece: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<u64>> {
        let (mut depth, mut in_text, mut is_escaped, mut first) = (0_usize, false, false, None);
        loop {
            let buffer = self.source.fill_buf()?;
            if buffer.is_empty() {
                return Ok(first);
            }
            let mut used = 0;
            let mut is_whole = false;
            for byte in buffer {
                used += 1;
                self.line += u64::from(*byte == b'\n');
                if first.is_none() {
                    // Between elements; the brackets of the array itself too.
                    if byte.is_ascii_whitespace() || matches!(byte, b',' | b'[' | b']' | 0xef | 0xbb | 0xbf) {
                        continue;
                    }
                    first = Some(self.line);
                }
                if in_text {
                    in_text = is_escaped || *byte != b'"';
                    is_escaped = !is_escaped && *byte == b'\\';
                } else {
                    match byte {
                        b'"' => in_text = true,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' if depth > 0 => {
                            depth -= 1;
                            is_whole = depth == 0;
                        }
                        // The end of what is no object.
                        b',' | b']' | b'\n' if depth == 0 => is_whole = true,
                        _ => {}
                    }
                }
                if piece.len() <= bytes_max {
                    piece.push(*byte);
                }
                if is_whole {
                    break;
                }
            }
            self.source.consume(used);
            if is_whole {
                return Ok(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &'static str, layout: Layout, bytes_max: usize) -> Vec<(u64, String)> {
        // A small buffer, so that pieces cross it.
        let mut pieces = Pieces::new(Box::new(io::BufReader::with_capacity(3, text.as_bytes())), layout);
        let (mut found, mut piece) = (Vec::new(), Vec::new());
        while let Some(line) = pieces.next(&mut piece, bytes_max).unwrap() {
            found.push((line, String::from_utf8_lossy(&piece).into_owned()));
        }
        found
    }

    fn of(pieces: &[(u64, &str)]) -> Vec<(u64, String)> {
        pieces.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
    }

    #[test]
    fn lines_are_pieces_and_empty_ones_only_count() {
        assert_eq!(pieces("\u{feff}{}\n\n [1]\r\nx", Layout::Lines, 9), of(&[(1, "{}"), (3, " [1]"), (4, "x")]));
    }

    #[test]
    fn elements_are_pieces_whatever_stands_in_their_texts() {
        let text = "[\n {\"a\": \"]},\\\"{\"},\n {\"b\": [1, {}]\n }\n]\n";
        assert_eq!(pieces(text, Layout::Document, 99), of(&[(2, r#"{"a": "]},\"{"}"#), (3, "{\"b\": [1, {}]\n }")]));
        assert_eq!(pieces("{\n}\n", Layout::Document, 99), of(&[(1, "{\n}")]));
    }

    #[test]
    fn a_document_that_is_cut_ends_in_half_an_element_and_other_values_stay_apart() {
        assert_eq!(pieces("[{\"a\":1},{\"b\":", Layout::Document, 99), of(&[(1, "{\"a\":1}"), (1, "{\"b\":")]));
        assert_eq!(pieces("[7, {}, \"x\"]", Layout::Document, 99), of(&[(1, "7,"), (1, "{}"), (1, "\"x\"]")]));
        assert_eq!(pieces("[{\"a\":\"0123456789\"},{}]", Layout::Document, 4), of(&[(1, "{\"a\":"), (1, "{}")]));
    }
}
