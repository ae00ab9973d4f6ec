//! Logs that agents leave on disk, made into events: Claude Code, Codex, OpenHands. A file each; facts about a format live there only.
//!
//! A log is read in *pieces*: a line, or an element of a document. [`detect`] tells the format by content, a [`Converter`] turns
//! pieces into events as [`loopwarden_core::event::decode`] reads them. Texts beyond a bound keep their two ends and the hash of the whole,
//! so that what was equal stays equal. What carries nothing about calls or messages is counted by its kind.

mod claude_code;
mod codex;
mod detect;
mod draft;
mod object;
mod openhands;
mod text;

use std::collections::BTreeMap;

pub use detect::{Detected, Layout, detect, is_undecided};
use loopwarden_core::event::{EventTime, Reason, Rejected, json};
use object::Object;
use serde_json::{Map, Value};

/// Longest piece. Bytes. One holds at most a call with its answer, or a model's reply.
pub const PIECE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Kinds that are counted by name; more are counted together.
const KINDS_MAX: usize = 48;
/// Characters of such a name.
const KIND_CHARS_MAX: usize = 48;
/// Calls whose tool or id is remembered until their answer comes.
const OPEN_CALLS_MAX: usize = 1_024;

/// Whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Claude Code: `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// Codex: `~/.codex/sessions/**/rollout-*.jsonl`.
    Codex,
    /// OpenHands: a trajectory, or a directory of events.
    OpenHands,
}

impl Format {
    /// Its name, for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::OpenHands => "OpenHands",
        }
    }
}

/// One event, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The event.
    pub json: String,
    /// Its session.
    pub session_id: String,
    /// When it happened, where the log says so.
    pub time: Option<EventTime>,
}

/// What was read and what was not, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// What was ignored, by its kind in the log.
    pub ignored: BTreeMap<String, u64>,
}

impl Tally {
    /// Adds another's numbers.
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.events {
            *self.events.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.ignored {
            self.ignore_many(kind, *count);
        }
    }

    fn ignore(&mut self, kind: &str) {
        self.ignore_many(kind, 1);
    }

    /// A kind is a name of the format; what does not look like one may be content.
    fn ignore_many(&mut self, kind: &str, count: u64) {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/' | ' ' | '<' | '>');
        let is_plain = !kind.is_empty() && kind.len() <= KIND_CHARS_MAX && kind.chars().all(is_name);
        let is_known = self.ignored.contains_key(kind) || self.ignored.len() < KINDS_MAX;
        let name = if is_plain && is_known { kind } else { "other" };
        *self.ignored.entry(name.to_owned()).or_default() += count;
    }
}

/// Turns the pieces of one log into events. One for each log: it remembers the session, open calls, what usage was counted.
#[derive(Debug)]
pub struct Converter {
    state: State,
    tally: Tally,
}

#[derive(Debug)]
enum State {
    ClaudeCode(claude_code::Claude),
    Codex(codex::Codex),
    OpenHands(openhands::OpenHands),
}

/// Where events of a piece go, with what was ignored.
struct Sink<'a> {
    out: &'a mut Vec<Made>,
    tally: &'a mut Tally,
}

impl Converter {
    /// For a log of this format. `name` stands for the session where the log names none: that of its file, or its directory.
    pub fn new(format: Format, name: &str) -> Self {
        let state = match format {
            Format::ClaudeCode => State::ClaudeCode(claude_code::Claude::new(name)),
            Format::Codex => State::Codex(codex::Codex::new(name)),
            Format::OpenHands => State::OpenHands(openhands::OpenHands::new(name)),
        };
        Self { state, tally: Tally::default() }
    }

    /// Converts a piece; its events are added to `out`, none of them if it is refused.
    ///
    /// # Errors
    /// Why the piece is none of this format, with the field concerned.
    pub fn piece(&mut self, bytes: &[u8], out: &mut Vec<Made>) -> Result<(), Rejected> {
        let object = parse(bytes)?;
        let before = out.len();
        let tally = self.tally.clone();
        let mut sink = Sink { out, tally: &mut self.tally };
        let converted = match &mut self.state {
            State::ClaudeCode(claude) => claude.piece(Object(&object), &mut sink),
            State::Codex(codex) => codex.piece(Object(&object), &mut sink),
            State::OpenHands(openhands) => openhands.piece(Object(&object), &mut sink),
        };
        if converted.is_err() {
            out.truncate(before);
            self.tally = tally;
        }
        converted
    }

    /// Converts what waited for a piece that does not come any more: the log is at its end.
    ///
    /// # Errors
    /// As [`Converter::piece`].
    pub fn finish(&mut self, out: &mut Vec<Made>) -> Result<(), Rejected> {
        let mut sink = Sink { out, tally: &mut self.tally };
        match &mut self.state {
            State::ClaudeCode(claude) => claude.finish(&mut sink),
            State::Codex(_) | State::OpenHands(_) => Ok(()),
        }
    }

    /// What was read so far, and what was ignored.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// A piece as an object.
fn parse(bytes: &[u8]) -> Result<Map<String, Value>, Rejected> {
    if bytes.len() > PIECE_BYTES_MAX {
        return Err(Rejected::whole(Reason::TooLarge));
    }
    let text = json::text(bytes).ok_or_else(|| Rejected::whole(Reason::NotUtf8))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Rejected::whole(Reason::NotAnObject)),
        Err(_) => Err(Rejected::whole(Reason::NotJson)),
    }
}

/// Answers that are still to come: something remembered by the id of a call, bounded.
#[derive(Debug, Default)]
struct Open(BTreeMap<String, String>, std::collections::VecDeque<String>);

impl Open {
    fn insert(&mut self, id: &str, what: &str) {
        if self.0.insert(id.to_owned(), what.to_owned()).is_none() {
            self.1.push_back(id.to_owned());
        }
        if self.1.len() > OPEN_CALLS_MAX
            && let Some(oldest) = self.1.pop_front()
        {
            self.0.remove(&oldest);
        }
    }

    fn get(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }
}
