//! Logs of agents among the inputs: read side by side in the order of their events' times, as a fleet would have sent them.
//!
//! One after the other would not do: the time of a partition is that of its newest event, so the second log would only begin
//! when all its timers are long due. A log is opened when its first event's time has come, and so many at once at most.

use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::{cmp::Reverse, path::PathBuf, sync::Arc};

use loopwarden_core::event::{EventTime, partition_of};
use loopwarden_log::LogError;

use crate::file::chunk::{Given, Placing};
use crate::file::folder::{unpacked, without_end};
use crate::{file::FileInput, file::input::Opened, file::options::REPLAY_PARTITIONS, file::pieces::Pieces, file::read::Refused};
use loopwarden_sources::transcript::{Converter, Detected, Format, Layout, Made, PIECE_BYTES_MAX, detect};

use crate::file::rounds::Rounds;

/// Logs that are open at once. Each holds a buffer and the events of one piece.
const OPEN_MAX: usize = 128;
/// A piece's buffer beyond this is given back. Bytes.
const PIECE_BYTES_KEPT: usize = 64 * 1024;

/// A log that waits or is being read.
pub(super) struct Strand {
    format: Format,
    /// Name of the session, where the log has none.
    name: String,
    /// Files still to be read, in order; a directory of events has many.
    files: VecDeque<FileInput>,
    /// The first file, where it cannot be opened again.
    opened: Option<Opened>,
    reading: Option<(FileInput, Pieces)>,
    converter: Converter,
    made: VecDeque<Made>,
    refused: Vec<Refused>,
    /// A file of it that cannot be read to its end.
    left: Option<LogError>,
    piece: Vec<u8>,
    /// Time of its next event, never before that of its last.
    time: EventTime,
}

impl Strand {
    /// A log whose first file was looked into.
    pub(super) fn new(format: Format, name: String, files: Vec<FileInput>, opened: Opened) -> Self {
        let is_read_once = files.first().is_some_and(FileInput::is_read_once);
        Self {
            format,
            converter: Converter::new(format, &name),
            name,
            files: files.into(),
            opened: is_read_once.then_some(opened),
            reading: None,
            made: VecDeque::new(),
            refused: Vec::new(),
            left: None,
            piece: Vec::new(),
            time: EventTime(i64::MIN),
        }
    }

    /// When it begins: the time of its first event that has one. What cannot be read again waits at its first event.
    fn first_time(&mut self, rounds: &Rounds) -> EventTime {
        if self.opened.is_some() {
            return EventTime(i64::MIN);
        }
        let Some(first) = self.files.front().cloned() else { return self.time };
        let uncounted = Arc::default();
        let mut probe = Self {
            format: self.format,
            name: self.name.clone(),
            files: VecDeque::from([first]),
            opened: None,
            reading: None,
            converter: Converter::new(self.format, &self.name),
            made: VecDeque::new(),
            refused: Vec::new(),
            left: None,
            piece: Vec::new(),
            time: EventTime(i64::MIN),
        };
        while probe.fill_from(&uncounted) && !rounds.state().is_abandoned() {
            if let Some(time) = probe.made.iter().find_map(|made| made.time) {
                return time;
            }
            probe.made.clear();
            probe.refused.clear();
        }
        self.time
    }

    /// Reads until an event is there; false at the end. What is refused on the way is kept for the report.
    fn fill(&mut self, rounds: &Rounds) -> bool {
        self.fill_from(&rounds.state().progress())
    }

    fn fill_from(&mut self, read: &Arc<std::sync::atomic::AtomicU64>) -> bool {
        while self.made.is_empty() {
            let Some((read_from, pieces)) = &mut self.reading else {
                let Some(input) = self.files.pop_front() else {
                    let mut made = Vec::new();
                    // What waited was checked when it was read.
                    let is_done = self.converter.finish(&mut made).is_err() || made.is_empty();
                    self.made.extend(made);
                    if is_done {
                        return false;
                    }
                    continue;
                };
                let opened = match self.opened.take() {
                    Some(opened) => Ok(opened),
                    None => input.open(Arc::clone(read)),
                };
                match opened.map(|opened| (detect(opened.head()), opened)) {
                    Ok((detected, opened)) => {
                        let layout = match detected {
                            Detected::Log(_, layout) => layout,
                            // One of a directory's that was cut before it says whose it is.
                            Detected::Events | Detected::EventDocument | Detected::Unknown => Layout::Document,
                        };
                        self.reading = Some((input, Pieces::new(opened.into_source(), layout)));
                    }
                    Err(error) => {
                        self.left.get_or_insert(input.unreadable(&error));
                        self.refused.push((input.name(), 0, format!("cannot be read: {error}")));
                    }
                }
                continue;
            };
            if self.piece.capacity() > PIECE_BYTES_KEPT {
                self.piece = Vec::new();
            }
            match pieces.next(&mut self.piece, PIECE_BYTES_MAX) {
                Ok(Some(line)) => {
                    let mut made = Vec::new();
                    if let Err(rejected) = self.converter.piece(&self.piece, &mut made) {
                        self.refused.push((read_from.name(), line, rejected.to_string()));
                        // With a piece that makes no event the caller sees what was refused.
                        return true;
                    }
                    self.made.extend(made);
                }
                Ok(None) => self.reading = None,
                Err(error) => {
                    let why = read_from.unreadable(&format!("after line {}: {error}", pieces.line().saturating_sub(1)));
                    self.left.get_or_insert(why);
                    self.refused.push((read_from.name(), pieces.line(), format!("cannot be read further: {error}")));
                    self.reading = None;
                }
            }
        }
        if let Some(time) = self.made.front().and_then(|made| made.time) {
            self.time = self.time.max(time);
        }
        true
    }
}

/// Reads all logs. False when nobody takes their events any more, or the first refusal ends it (`is_strict`).
pub(super) fn read(strands: Vec<Strand>, rounds: &mut Rounds, timestamp: &mut i64, is_strict: bool) -> bool {
    let mut waiting: Vec<(EventTime, usize, Strand)> =
        strands.into_iter().enumerate().map(|(at, mut strand)| (strand.first_time(rounds), at, strand)).collect();
    // The next one stands last.
    waiting.sort_by_key(|(time, at, _)| Reverse((*time, *at)));
    let mut open: BTreeMap<usize, Strand> = BTreeMap::new();
    let mut order: BinaryHeap<Reverse<(EventTime, usize)>> = BinaryHeap::new();
    loop {
        while open.len() < OPEN_MAX
            && let Some((time, ..)) = waiting.last()
            && order.peek().is_none_or(|Reverse((next, _))| time <= next)
            && let Some((_, at, mut strand)) = waiting.pop()
        {
            let is_over = !strand.fill(rounds);
            if !note_refused(&mut strand, rounds, is_strict) {
                return false;
            }
            if is_over {
                note_read(&strand, rounds);
            } else {
                order.push(Reverse((strand.time, at)));
                open.insert(at, strand);
            }
        }
        let Some(Reverse((_, at))) = order.pop() else { return true };
        let Some(strand) = open.get_mut(&at) else { continue };
        if let Some(made) = strand.made.pop_front() {
            *timestamp = if strand.time.0 < 0 { *timestamp } else { strand.time.0 };
            place(&made, *timestamp, rounds);
            if !rounds.end_if_full() {
                return false;
            }
        }
        let is_over = !strand.fill(rounds);
        if !note_refused(strand, rounds, is_strict) {
            return false;
        }
        if is_over {
            if let Some(strand) = open.remove(&at) {
                note_read(&strand, rounds);
            }
        } else {
            order.push(Reverse((strand.time, at)));
        }
    }
}

fn place(made: &Made, timestamp_ms: i64, rounds: &mut Rounds) {
    let offset = rounds.line();
    rounds.put(&Placing {
        value: Some(Given::Bytes(made.json.as_bytes())),
        key: Some(made.session_id.as_bytes()),
        headers: &[],
        partition: partition_of(made.session_id.as_bytes(), REPLAY_PARTITIONS),
        offset,
        timestamp_ms,
        topic: None,
    });
}

/// Hands over what was refused; false when that ends the reading.
fn note_refused(strand: &mut Strand, rounds: &Rounds, is_strict: bool) -> bool {
    let refused = std::mem::take(&mut strand.refused);
    let is_end = is_strict && !refused.is_empty();
    if let Some(why) = strand.left.take() {
        rounds.state().read().note_left(why);
    }
    rounds.state().read().note_refused(refused);
    if is_end {
        rounds.state().read().is_cut = true;
    }
    !is_end
}

fn note_read(strand: &Strand, rounds: &Rounds) {
    rounds.state().read().note_log(strand.format, strand.converter.tally());
}

/// Name that stands for the session of a log without one: of the file, or of the directory where that says nothing.
pub(crate) fn session_name(input: &FileInput) -> String {
    let FileInput::Path(path) = input else { return "standard-input".to_owned() };
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file = name(path);
    let plain = unpacked(&file);
    let stem = without_end(plain).unwrap_or(plain);
    let says_nothing = stem.is_empty()
        || stem.bytes().all(|byte| byte.is_ascii_digit())
        || stem.starts_with("event-")
        || matches!(stem, "api_conversation_history" | "trajectory" | "events" | "event" | "output" | "history");
    let mut named = if says_nothing { path.parent().map(PathBuf::from).unwrap_or_default() } else { return stem.to_owned() };
    if name(&named) == "events" {
        named = named.parent().map(PathBuf::from).unwrap_or_default();
    }
    let found = name(&named);
    if found.is_empty() { stem.to_owned() } else { found }
}
