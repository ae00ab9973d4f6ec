//! Records of a file, one a line, each bounded.

use std::io::{BufRead, BufReader, Read as _};
use std::{io, path::Path};

use loopwarden_lab::file::open_named;

use crate::{exit_code, failure::Failure};

/// A file cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: {}: {error}", path.display()))
}

/// The lines of a file that are not blank, each within a bound and one byte: what is longer is refused as too large. `-` is standard
/// input.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn lines(path: &Path, bytes_max: usize) -> Result<impl Iterator<Item = io::Result<Vec<u8>>>, Failure> {
    let mut reader: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(open_named(path).map_err(|error| unreadable(path, &error))?))
    };
    let mut next = move || -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        if reader.by_ref().take(bytes_max as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        // The rest of a line that is too long.
        let mut is_open = line.last() != Some(&b'\n');
        while is_open {
            let rest = reader.fill_buf()?;
            let (length, is_end) = match rest.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (rest.len(), rest.is_empty()),
            };
            reader.consume(length);
            is_open = !is_end;
        }
        while line.last().is_some_and(u8::is_ascii_whitespace) {
            line.pop();
        }
        Ok(Some(line))
    };
    let all = std::iter::from_fn(move || next().transpose());
    Ok(all.filter(|line| line.as_ref().map_or(true, |line| !line.is_empty())))
}
