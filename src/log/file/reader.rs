//! The thread that reads: lines to places, places to lanes, in rounds of input, so that no lane gets far ahead of another.

use std::io::BufRead;
use std::io::Read;
use std::sync::Arc;

use crate::event::partition_of;
use crate::log::LogError;
use crate::log::file::FileInput;
use crate::log::file::FileOptions;
use crate::log::file::REPLAY_PARTITIONS;
use crate::log::file::exchange::Chunk;
use crate::log::file::exchange::PlacedLine;
use crate::log::file::exchange::Shared;
use crate::log::file::scan::scan;

/// Lines of a round, over all lanes.
const ROUND_LINES: u64 = 4_096;
/// Bytes after which a round ends early.
const ROUND_BYTES: usize = 4 << 20;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn start(inputs: Vec<FileInput>, options: &FileOptions, shared: Arc<Shared>) -> Result<(), LogError> {
    let mut reader = Reader {
        round: Vec::new(),
        lanes: options.lanes.max(1),
        value_bytes_max: options.value_bytes_max,
        line: 0,
        first_of_round: 0,
        bytes: 0,
        timestamp_ms: 0,
        topic: None,
        shared,
    };
    reader.begin_round();
    // Not joined: it may stand in a read of standard input for ever. It ends with the lanes at the next line.
    let spawned = std::thread::Builder::new().name("lw-read".to_owned()).spawn(move || {
        let failed = reader.run(&inputs).err();
        reader.shared.end(failed);
    });
    spawned
        .map(drop)
        .map_err(|error| LogError::Fatal { code: "E0302", message: format!("cannot start the reading thread: {error}") })
}

struct Reader {
    round: Vec<Chunk>,
    lanes: u32,
    value_bytes_max: usize,
    /// Number of the line to be read.
    line: u64,
    first_of_round: u64,
    bytes: usize,
    /// Timestamp of the line before.
    timestamp_ms: i64,
    /// The topic a line named last: usually the next one names it too.
    topic: Option<Arc<str>>,
    shared: Arc<Shared>,
}

impl Reader {
    fn run(&mut self, inputs: &[FileInput]) -> Result<(), LogError> {
        for input in inputs {
            let first = self.line;
            self.shared.note_file(first, input.name());
            let mut source = input.open().map_err(|error| input.unreadable(&error))?;
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = read_line(&mut *source, self.value_bytes_max, &mut line);
                let more = match read {
                    Ok(more) => more,
                    Err(error) => {
                        // What was read before the damage is good.
                        self.end_round();
                        return Err(input.unreadable(&format!("after line {}: {error}", self.line - first)));
                    }
                };
                if !more {
                    break;
                }
                let text = if self.line == first { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line) } else { &line };
                self.place(text);
                if (self.line - self.first_of_round >= ROUND_LINES || self.bytes >= ROUND_BYTES) && !self.end_round() {
                    return Ok(());
                }
            }
        }
        self.end_round();
        Ok(())
    }

    fn begin_round(&mut self) {
        self.round = (0..self.lanes).map(|_| Chunk::default()).collect();
        self.first_of_round = self.line;
        self.bytes = 0;
    }

    /// Hands the round over; false when nobody takes it.
    fn end_round(&mut self) -> bool {
        for chunk in &mut self.round {
            chunk.upto = self.line;
        }
        let round = std::mem::take(&mut self.round);
        self.begin_round();
        self.shared.push(round)
    }

    /// Puts a line into the chunk of its lane. Empty lines only count.
    fn place(&mut self, text: &[u8]) {
        let line = self.line;
        self.line += 1;
        if text.trim_ascii().is_empty() {
            return;
        }
        let found = scan(text);
        let by_session = || found.session_id.as_deref().map_or(0, |session| partition_of(session.as_bytes(), REPLAY_PARTITIONS));
        let (partition, offset) = found.place.unwrap_or_else(|| (by_session(), line));
        self.timestamp_ms = found.timestamp_ms.unwrap_or(self.timestamp_ms);
        let topic = found.topic.map(|topic| match &self.topic {
            Some(last) if **last == *topic => Arc::clone(last),
            _ => Arc::clone(self.topic.insert(Arc::from(&*topic))),
        });
        let Some(chunk) = self.round.get_mut((partition % self.lanes) as usize) else { return };
        let start = chunk.bytes.len();
        chunk.bytes.extend_from_slice(text);
        let end = chunk.bytes.len();
        let key = found.session_id.map(|session| {
            chunk.bytes.extend_from_slice(session.as_bytes());
            end..chunk.bytes.len()
        });
        self.bytes += text.len();
        chunk.lines.push(PlacedLine { value: start..end, key, line, partition, offset, timestamp_ms: self.timestamp_ms, topic });
    }
}

/// Reads a line without its end; false at the end of input. Of a longer line than `bytes_max` it keeps one byte more than that
/// and drops the rest unseen.
fn read_line(source: &mut dyn BufRead, bytes_max: usize, line: &mut Vec<u8>) -> std::io::Result<bool> {
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
