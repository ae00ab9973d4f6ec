//! Lines of a source, each bounded.

use std::io::{BufRead, Read as _};

/// What a line was in its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineRead {
    /// With its end.
    pub(crate) bytes: u64,
    /// Its end is there; else the source ends first.
    pub(crate) is_whole: bool,
}

/// Reads a line without its end; nothing at the end of the source. Of a longer line than `bytes_max` it keeps one byte more than that and drops
/// the rest unseen.
pub(crate) fn read_line(source: &mut dyn BufRead, bytes_max: usize, line: &mut Vec<u8>) -> std::io::Result<Option<LineRead>> {
    line.clear();
    // Room for the line's end, and for the byte that makes it too long.
    let room = bytes_max as u64 + 3;
    let mut bytes = (&mut *source).take(room).read_until(b'\n', line)? as u64;
    if bytes == 0 {
        return Ok(None);
    }
    let mut is_whole = line.last() == Some(&b'\n');
    if is_whole {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    while !is_whole && bytes >= room {
        let buffer = source.fill_buf()?;
        if buffer.is_empty() {
            break;
        }
        let end = memchr::memchr(b'\n', buffer);
        let used = end.map_or(buffer.len(), |at| at + 1);
        is_whole = end.is_some();
        bytes += used as u64;
        source.consume(used);
    }
    line.truncate(bytes_max + 1);
    Ok(Some(LineRead { bytes, is_whole }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], bytes_max: usize) -> Vec<Vec<u8>> {
        // A small buffer, so that lines cross it.
        let mut source = std::io::BufReader::with_capacity(3, text);
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while read_line(&mut source, bytes_max, &mut line).unwrap().is_some() {
            lines.push(std::mem::take(&mut line));
        }
        lines
    }

    #[test]
    fn lines_end_with_a_newline_or_the_input() {
        assert_eq!(lines(b"a\nbc\r\n\nd", 9), [&b"a"[..], b"bc", b"", b"d"]);
        assert_eq!(lines(b"", 9), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"\r\n", 9), [b""]);
    }

    #[test]
    fn of_a_long_line_only_so_much_stays_that_it_is_too_large() {
        let long = [&b"x".repeat(50)[..], b"\nok\n", &b"y".repeat(8), b"\r\n", &b"z".repeat(9)].concat();
        assert_eq!(lines(&long, 8), [b"x".repeat(9), b"ok".to_vec(), b"y".repeat(8), b"z".repeat(9)]);
    }

    #[test]
    fn a_line_has_the_bytes_of_its_source_and_is_not_whole_without_its_end() {
        let read = |text: &[u8], bytes_max| {
            let (mut source, mut found, mut line) = (std::io::BufReader::with_capacity(3, text), Vec::new(), Vec::new());
            while let Some(LineRead { bytes, is_whole }) = read_line(&mut source, bytes_max, &mut line).unwrap() {
                found.push((bytes, is_whole, line.len()));
            }
            found
        };
        assert_eq!(read(b"ab\n\r\ncd", 9), [(3, true, 2), (2, true, 0), (2, false, 2)]);
        let long = [&b"x".repeat(18)[..], b"\nok\n", &b"y".repeat(20)].concat();
        assert_eq!(read(&long, 9), [(19, true, 10), (3, true, 2), (20, false, 10)]);
    }
}
