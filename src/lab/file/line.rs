//! Lines of a source, each bounded.

use std::io::{BufRead, Read as _};

/// Reads a line without its end; false at the end of input. Of a longer line than `bytes_max` it keeps one byte more than that
/// and drops the rest unseen.
pub(super) fn read_line(source: &mut dyn BufRead, bytes_max: usize, line: &mut Vec<u8>) -> std::io::Result<bool> {
    // Room for the line's end, and for the byte that makes it too long.
    let room = bytes_max as u64 + 3;
    if (&mut *source).take(room).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if line.len() as u64 == room {
        skip_line(source)?;
    }
    line.truncate(bytes_max + 1);
    Ok(true)
}

fn skip_line(source: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let (length, found) = buffer.iter().position(|byte| *byte == b'\n').map_or((buffer.len(), false), |at| (at + 1, true));
        if length == 0 {
            return Ok(());
        }
        source.consume(length);
        if found {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8], bytes_max: usize) -> Vec<Vec<u8>> {
        // A small buffer, so that lines cross it.
        let mut source = std::io::BufReader::with_capacity(3, text);
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while read_line(&mut source, bytes_max, &mut line).unwrap() {
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
}
