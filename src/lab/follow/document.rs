//! A log that is followed and written anew each time: a document, or a directory with a file for each event.

use std::{collections::BTreeSet, fs::File, io, io::BufReader, path::PathBuf};

use loopwarden_core::event::json;

use crate::{file::pieces::Pieces, follow::lines::ReadPosition};
use loopwarden_sources::transcript::{Converter, Format, Layout, Made, PIECE_BYTES_MAX};

/// Largest document, or directory of events, that is read again and again. Bytes.
const BYTES_MAX: u64 = 64 << 20;

/// What of a document is out.
#[derive(Debug)]
pub(super) struct Document {
    format: Format,
    name: String,
    out_events: u64,
    /// Ids of events that are out; none: it was not read since the process began, and its first events are.
    out: Option<BTreeSet<String>>,
}

impl Document {
    pub(super) const fn new(format: Format, name: String, known: Option<ReadPosition>) -> Self {
        let out_events = match known {
            Some(ReadPosition::Events(events)) => events,
            Some(ReadPosition::Bytes(_)) | None => 0,
        };
        Self { format, name, out_events, out: None }
    }

    /// Adds the events that were not there before, and says how many bytes there are. A document that is being written ends somewhere: its
    /// last element is then none, and comes with the next change.
    pub(super) fn read(&mut self, files: &[PathBuf], made: &mut Vec<Made>) -> io::Result<usize> {
        let mut bytes = 0;
        let mut converter = Converter::new(self.format, &self.name);
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        for path in files {
            let file = File::open(path)?;
            bytes += file.metadata()?.len();
            if bytes > BYTES_MAX {
                return Err(io::Error::other(format!("it is larger than {} MiB", BYTES_MAX >> 20)));
            }
            let mut pieces = Pieces::new(Box::new(BufReader::new(file)), Layout::Document);
            while pieces.next(&mut piece, PIECE_BYTES_MAX)?.is_some() {
                // What is refused makes no event.
                let _ = converter.piece(&piece, &mut all);
            }
        }
        let passed = self.out_events;
        let out =
            self.out.get_or_insert_with(|| all.iter().take(usize::try_from(passed).unwrap_or(usize::MAX)).map(id).collect());
        made.extend(all.into_iter().filter(|made| out.insert(id(made))));
        self.out_events = out.len() as u64;
        Ok(bytes as usize)
    }

    pub(super) const fn place(&self) -> ReadPosition {
        ReadPosition::Events(self.out_events)
    }

    pub(super) const fn is_warm(&self) -> bool {
        self.out.is_some()
    }

    pub(super) fn cool(&mut self) {
        self.out = None;
    }
}

/// The id of an event, unique in its log.
fn id(made: &Made) -> String {
    let id = json::fields(&made.json).find(|(name, _)| name == "id");
    id.map_or_else(String::new, |(_, source)| source.to_owned())
}
