//! Events of a stream (`text/event-stream`), whole, so that a text can be put into the one that carries a result.

use loopwarden_mcp::{Calls, LINE_BYTES_MAX, with};

/// Bytes of the event that has not ended yet. A longer one passes unread.
#[derive(Debug, Default)]
pub(crate) struct Events {
    held: Vec<u8>,
    /// Something stands in the line so far.
    is_within_line: bool,
    last: u8,
    is_passing: bool,
}

impl Events {
    /// Takes bytes of the stream; those that can go on, with what is to be said.
    pub(crate) fn take(&mut self, bytes: &[u8], calls: &Calls) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in bytes {
            self.held.push(*byte);
            let is_end = match byte {
                // The second half of a line's end.
                b'\n' if self.last == b'\r' => false,
                b'\n' | b'\r' => !std::mem::take(&mut self.is_within_line),
                _ => {
                    self.is_within_line = true;
                    false
                }
            };
            self.last = *byte;
            if is_end && !std::mem::take(&mut self.is_passing) {
                out.extend(told(&std::mem::take(&mut self.held), calls));
            } else if self.held.len() >= LINE_BYTES_MAX {
                self.is_passing = !is_end;
                out.append(&mut self.held);
            }
        }
        if self.is_passing {
            out.append(&mut self.held);
        }
        out
    }

    /// What is left at the end of the stream: no event, as it has no end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// An event with the texts that the guard adds to the result in it.
fn told(event: &[u8], calls: &Calls) -> Vec<u8> {
    // The data is its lines, joined; each part is known by its place in both.
    let (mut data, mut parts, mut at) = (Vec::new(), Vec::new(), 0);
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if !parts.is_empty() {
                data.push(b'\n');
            }
            parts.push((data.len(), at + line.len() - value.len()));
            data.extend_from_slice(value);
        }
        at += line.len() + 1;
    }
    let additions = calls.answered(&data).into_iter().filter_map(|(at, text)| {
        let (of_data, of_event) = parts.iter().rev().find(|(start, _)| *start <= at)?;
        Some((of_event + at - of_data, text))
    });
    with(event, additions)
}
