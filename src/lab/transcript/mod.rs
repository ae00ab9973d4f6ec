//! Logs that agents leave on disk, made into events: Claude Code, Cline, Codex, Gemini CLI, goose, opencode, OpenHands, Qwen Code. A file
//! each; facts about a format live there only.
//!
//! A log is read in *pieces*: a line, or an element of a document. [`detect`] tells the format by content, a [`Converter`] turns
//! pieces into events as [`loopwarden_core::event::decode`] reads them. Texts beyond a bound keep their two ends and the hash of the whole,
//! so that what was equal stays equal. What carries nothing about calls or messages is counted by its kind.

mod claude_code;
mod cline;
mod cline_tags;
mod codex;
mod detect;
mod draft;
mod format;
mod gemini;
mod goose;
mod object;
mod opencode;
mod openhands;
mod qwen;
mod sink;
mod text;

pub use detect::{Detected, Layout, detect, is_undecided};
pub use format::Format;
use loopwarden_core::event::{Reason, Rejected, json};
use object::Object;
use serde_json::{Map, Value};
use sink::Sink;
pub use sink::{Made, Tally};

/// Longest piece. Bytes. One holds at most a call with its answer, or a model's reply.
pub const PIECE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Turns the pieces of one log into events. One for each log: it remembers the session, open calls, what usage was counted.
#[derive(Debug)]
pub struct Converter {
    state: State,
    tally: Tally,
}

#[derive(Debug)]
enum State {
    ClaudeCode(claude_code::Claude),
    Cline(cline::Cline),
    Codex(codex::Codex),
    Gemini(gemini::Gemini),
    Goose(goose::Goose),
    Opencode(opencode::Opencode),
    OpenHands(openhands::OpenHands),
    Qwen(qwen::Qwen),
}

impl Converter {
    /// For a log of this format. `name` stands for the session where the log names none: that of its file, or its directory.
    pub fn new(format: Format, name: &str) -> Self {
        let state = match format {
            Format::ClaudeCode => State::ClaudeCode(claude_code::Claude::new(name)),
            Format::Cline => State::Cline(cline::Cline::new(name)),
            Format::Codex => State::Codex(codex::Codex::new(name)),
            Format::Gemini => State::Gemini(gemini::Gemini::new(name)),
            Format::Goose => State::Goose(goose::Goose::new(name)),
            Format::Opencode => State::Opencode(opencode::Opencode::new(name)),
            Format::OpenHands => State::OpenHands(openhands::OpenHands::new(name)),
            Format::Qwen => State::Qwen(qwen::Qwen::new(name)),
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
            State::Cline(cline) => cline.piece(Object(&object), &mut sink),
            State::Codex(codex) => codex.piece(Object(&object), &mut sink),
            State::Gemini(gemini) => gemini.piece(Object(&object), &mut sink),
            State::Goose(goose) => goose.piece(Object(&object), &mut sink),
            State::Opencode(opencode) => opencode.piece(Object(&object), &mut sink),
            State::OpenHands(openhands) => openhands.piece(Object(&object), &mut sink),
            State::Qwen(qwen) => qwen.piece(Object(&object), &mut sink),
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
            State::Cline(_)
            | State::Codex(_)
            | State::Gemini(_)
            | State::Goose(_)
            | State::Opencode(_)
            | State::OpenHands(_)
            | State::Qwen(_) => Ok(()),
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
