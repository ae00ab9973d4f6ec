//! The thread that reads files: lines to places, places to lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::{io::BufRead, path::Path, sync::Arc};

use loopwarden_core::event::{EventTime, RecordMeta, RecordOffset, decode, partition_of};
use loopwarden_log::LogError;

use crate::file::chunk::{Given, Placing};
use crate::file::logs::{Strand, session_name};
use crate::file::options::{FileOptions, REPLAY_PARTITIONS};
use crate::file::rounds::{Rounds, Taken};
use crate::file::scan::{names_record, scan};
use crate::file::{FileInput, logs};
use crate::{file::block::Blocks, file::folder::Group, file::pieces::Pieces, file::read::ReadState};
use loopwarden_sources::transcript::{Detected, Layout, detect};

/// Files of a directory of events that are looked into for whose they are, beside the first.
const SIBLINGS_MAX: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

pub(super) fn start(inputs: Vec<Group>, options: &FileOptions, state: Arc<ReadState>) -> Result<Taken, LogError> {
    let (rounds, taken) = Rounds::new(options.lanes, Arc::clone(&state));
    let mut reader = Reader {
        rounds,
        value_bytes_max: options.value_bytes_max,
        is_strict: options.is_strict,
        timestamp_ms: 0,
        topic: None,
        next: BTreeMap::new(),
    };
    // Not joined: it may stand in a read of standard input for ever. It ends at the next round that nobody takes.
    let spawned = std::thread::Builder::new().name("lw-read".to_owned()).spawn(move || state.end(reader.run(inputs)));
    spawned
        .map(|_| taken)
        .map_err(|error| LogError::Fatal { code: "E0302", message: format!("cannot start the reading thread: {error}") })
}

struct Reader {
    rounds: Rounds,
    value_bytes_max: usize,
    is_strict: bool,
    /// Timestamp of the line before.
    timestamp_ms: i64,
    /// The topic a line named last: usually the next one names it too.
    topic: Option<Arc<str>>,
    /// Next offset of each partition. A lane takes a record that lies before it for one it has seen.
    next: BTreeMap<u32, u64>,
}

enum Reading {
    On,
    /// The first line that is no event ends a strict reading.
    Cut,
    /// Nobody takes lines any more.
    Abandoned,
}

impl Reader {
    /// Events as they are first, one file after the other; then the logs of agents, side by side.
    fn run(&mut self, groups: Vec<Group>) -> Result<(), LogError> {
        let (mut logs, mut names) = (Vec::new(), BTreeSet::new());
        for Group { files, is_found } in groups {
            let Some(input) = files.first() else { continue };
            let opened = match input.open(self.rounds.state().progress()) {
                Ok(opened) => opened,
                Err(error) if is_found => {
                    self.rounds.state().read().note_left(input.unreadable(&error));
                    self.rounds.state().read().note_refused(vec![(input.name(), 0, format!("cannot be read: {error}"))]);
                    continue;
                }
                Err(error) => return Err(input.unreadable(&error)),
            };
            let detected = match detect(opened.head()) {
                // The first event of a directory may be damaged: any other says whose they are.
                Detected::Unknown => files.iter().skip(1).take(SIBLINGS_MAX).find_map(whose_log).unwrap_or(Detected::Unknown),
                detected => detected,
            };
            let reading = match detected {
                Detected::Log(format, _) => {
                    let name = unlike(session_name(input), input, &mut names);
                    logs.push(Strand::new(format, name, files, opened));
                    Reading::On
                }
                Detected::Unknown if is_found => {
                    self.rounds.state().read().note_skipped(input.name());
                    Reading::On
                }
                Detected::EventDocument => self.document(input, opened.into_source())?,
                Detected::Events | Detected::Unknown => self.events(input, opened.into_source())?,
            };
            match reading {
                Reading::On => {}
                Reading::Cut => {
                    self.rounds.state().read().is_cut = true;
                    self.rounds.end();
                    return Ok(());
                }
                Reading::Abandoned => return Ok(()),
            }
        }
        if !logs.is_empty() {
            self.rounds.state().read().note_file(self.rounds.line(), "logs of agents, event".to_owned());
            if !logs::read(logs, &mut self.rounds, &mut self.timestamp_ms, self.is_strict) && self.rounds.state().is_abandoned() {
                return Ok(());
            }
        }
        self.rounds.end();
        Ok(())
    }

    /// Reads a file of events, one a line.
    fn events(&mut self, input: &FileInput, source: Box<dyn BufRead + Send>) -> Result<Reading, LogError> {
        let first = self.rounds.line();
        self.rounds.state().read().note_file(first, input.name());
        let mut blocks = Blocks::new(source, self.value_bytes_max);
        loop {
            let block = match blocks.next(self.rounds.block()) {
                Ok(Some(block)) => Arc::new(block),
                Ok(None) => return Ok(Reading::On),
                Err(error) => {
                    // What was read before the damage is good.
                    self.rounds.end();
                    return Err(input.unreadable(&format!("after line {}: {error}", self.rounds.line() - first)));
                }
            };
            // Hardly any block has one: a search over all its lines costs less than one in each.
            let may_have_record = names_record(block.bytes());
            for mut at in block.lines(self.value_bytes_max) {
                if self.rounds.line() == first
                    && block.bytes().get(at.clone()).is_some_and(|line| line.starts_with(BYTE_ORDER_MARK))
                {
                    at.start += BYTE_ORDER_MARK.len();
                }
                let reading = self.place(&Given::Line(&block, at), may_have_record);
                if !matches!(reading, Reading::On) {
                    return Ok(reading);
                }
            }
        }
    }

    /// Reads a document: an array of events, or one event over several lines. Its elements are numbered as lines are.
    fn document(&mut self, input: &FileInput, source: Box<dyn BufRead + Send>) -> Result<Reading, LogError> {
        self.rounds.state().read().note_file(self.rounds.line(), format!("{}, element", input.name()));
        let (mut pieces, mut piece) = (Pieces::new(source, Layout::Document), Vec::new());
        loop {
            match pieces.next(&mut piece, self.value_bytes_max) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Reading::On),
                Err(error) => {
                    self.rounds.end();
                    return Err(input.unreadable(&format!("after line {}: {error}", pieces.line())));
                }
            }
            let reading = self.place(&Given::Bytes(&piece), true);
            if !matches!(reading, Reading::On) {
                return Ok(reading);
            }
        }
    }

    /// Places a line. Empty ones only count. `may_have_record`: as for [`scan`].
    fn place(&mut self, value: &Given<'_>, may_have_record: bool) -> Reading {
        let text = value.bytes();
        if text.trim_ascii().is_empty() {
            self.rounds.skip();
            return self.go_on();
        }
        let found = scan(text, may_have_record);
        let line = self.rounds.line();
        let by_session = || found.session_id.as_deref().map_or(0, |session| partition_of(session.as_bytes(), REPLAY_PARTITIONS));
        let (partition, offset) = found.place.unwrap_or_else(|| (by_session(), line));
        let next = self.next.entry(partition).or_default();
        if offset < *next {
            let why = format!(
                "offset {offset} of partition {partition}, which was read up to {}: records of a partition come in their order, those of two \
                 topics apart",
                *next - 1
            );
            return self.refuse(line, why);
        }
        *next = offset.saturating_add(1);
        self.timestamp_ms = found.timestamp_ms.unwrap_or(self.timestamp_ms);
        let topic = found.topic.map(|topic| match &self.topic {
            Some(last) if **last == *topic => Arc::clone(last),
            _ => Arc::clone(self.topic.insert(Arc::from(&*topic))),
        });
        let placing = Placing {
            value: Some(value.clone()),
            key: found.session_id.as_deref().map(str::as_bytes),
            headers: &[],
            partition,
            offset,
            timestamp_ms: self.timestamp_ms,
            topic,
        };
        self.rounds.put(&placing);
        // Its lane says again what is wrong with it: it is the last line that any lane reads, however many threads there are.
        if self.is_strict && !self.is_event(&placing) {
            return Reading::Cut;
        }
        self.go_on()
    }

    /// Leaves a line out that no lane would take.
    fn refuse(&mut self, line: u64, why: String) -> Reading {
        let state = self.rounds.state();
        // A line that was read stands in a file that was noted.
        let (file, at) = state.read().locate(line).unwrap_or_default();
        state.read().note_refused(vec![(file, at + 1, why)]);
        self.rounds.skip();
        if self.is_strict { Reading::Cut } else { self.go_on() }
    }

    /// After a line: hands the round over where it is full.
    fn go_on(&mut self) -> Reading {
        if self.rounds.end_if_full() { Reading::On } else { Reading::Abandoned }
    }

    fn is_event(&self, placing: &Placing<'_>) -> bool {
        let meta = RecordMeta {
            topic: placing.topic.as_deref().unwrap_or_default(),
            partition: placing.partition,
            offset: RecordOffset(placing.offset),
            timestamp: EventTime(placing.timestamp_ms),
            key: placing.key,
            headers: Vec::new(),
            value_bytes_max: self.value_bytes_max,
        };
        decode(placing.value.as_ref().map(Given::bytes), &meta).is_ok()
    }
}

/// What a file of a directory is, where it is a log and can be read.
fn whose_log(input: &FileInput) -> Option<Detected> {
    let opened = input.open(Arc::default()).ok()?;
    Some(detect(opened.head())).filter(|detected| matches!(detected, Detected::Log(..)))
}

/// A name that no log before has: two runs of one task lie in two directories, and are two sessions.
fn unlike(name: String, input: &FileInput, names: &mut BTreeSet<String>) -> String {
    let mut found = name;
    if let FileInput::Path(path) = input {
        for above in path.ancestors().skip(1).filter_map(Path::file_name) {
            if !names.contains(&found) {
                break;
            }
            found = format!("{}/{found}", above.to_string_lossy());
        }
    }
    names.insert(found.clone());
    found
}
