//! Logs that agents leave on disk, made into events. What is known of an agent's log stands in its folder, and nowhere else.
//!
//! A log is read in *pieces*: a line, or an element of a document. A line that two writes share holds two objects. [`detect`] finds the
//! format by content, a [`Converter`] turns pieces into events as [`loopwarden_core::event::decode`] reads them. What carries nothing about calls or messages is counted by its kind.

mod detect;
pub(crate) mod draft;
pub(crate) mod fields;
mod format;
pub(crate) mod log;
pub(crate) mod object;
pub(crate) mod sink;

pub use detect::{Detected, Layout, detect, is_undecided};
pub use format::Format;
use loopwarden_core::event::{Reason, Rejected, json};
use serde_json::{Map, Value};
pub use sink::{Made, Tally};

use crate::{transcript::log::Reader, transcript::object::Object, transcript::sink::Sink};

/// Longest piece. Bytes. One holds at most a call with its answer, or a model's reply.
pub const PIECE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Turns the pieces of one log into events.
#[derive(Debug)]
pub struct Converter {
    reader: Box<dyn Reader>,
    tally: Tally,
}

impl Converter {
    /// For a log of this format. `name` stands for the session where the log names none: that of its file, or its directory.
    pub fn new(format: Format, name: &str) -> Self {
        Self { reader: format.open(name), tally: Tally::default() }
    }

    /// Converts a piece; the events of its objects are added to `out`, none of an object that is refused.
    ///
    /// # Errors
    /// Why the piece is none of this format, with the field concerned. Objects behind a refused one are left out.
    pub fn piece(&mut self, bytes: &[u8], out: &mut Vec<Made>) -> Result<(), Rejected> {
        for object in objects(bytes)? {
            let before = out.len();
            let tally = self.tally.clone();
            let converted = self.reader.piece(Object(&object), &mut Sink { out, tally: &mut self.tally });
            if converted.is_err() {
                out.truncate(before);
                self.tally = tally;
                return converted;
            }
        }
        Ok(())
    }

    /// Converts what waited for a piece that does not come any more: the log is at its end.
    ///
    /// # Errors
    /// As [`Converter::piece`].
    pub fn finish(&mut self, out: &mut Vec<Made>) -> Result<(), Rejected> {
        self.reader.finish(&mut Sink { out, tally: &mut self.tally })
    }

    /// What was read so far, and what was ignored.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// The objects of a piece: one, or more where several writes share a line.
fn objects(bytes: &[u8]) -> Result<Vec<Map<String, Value>>, Rejected> {
    if bytes.len() > PIECE_BYTES_MAX {
        return Err(Rejected::whole(Reason::TooLarge));
    }
    let text = json::text(bytes).ok_or_else(|| Rejected::whole(Reason::NotUtf8))?;
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
    let values = values.ok().filter(|values| !values.is_empty()).ok_or_else(|| Rejected::whole(Reason::NotJson))?;
    let object = |value| if let Value::Object(object) = value { Some(object) } else { None };
    values.into_iter().map(object).collect::<Option<_>>().ok_or_else(|| Rejected::whole(Reason::NotAnObject))
}
