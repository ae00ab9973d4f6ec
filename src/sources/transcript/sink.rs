//! What formats share: events that are made, what was ignored, calls that wait for their answer.

use std::collections::{BTreeMap, VecDeque};

use loopwarden_core::event::EventTime;

/// Kinds that are counted by name; more are counted together.
const KINDS_MAX: usize = 48;
/// Characters of such a name.
const KIND_CHARS_MAX: usize = 48;
/// Calls whose tool or id is remembered until their answer comes.
const OPEN_CALLS_MAX: usize = 1_024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub json: String,
    pub session_id: String,
    /// When it happened, where the log says so.
    pub time: Option<EventTime>,
}

/// What was read and what was not, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub events: BTreeMap<&'static str, u64>,
    /// What was ignored, by its kind in the log.
    pub ignored: BTreeMap<String, u64>,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        for (kind, count) in &other.events {
            *self.events.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.ignored {
            self.ignore_many(kind, *count);
        }
    }

    pub(crate) fn ignore(&mut self, kind: &str) {
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

/// Where events of a piece go, with what was ignored.
pub(crate) struct Sink<'a> {
    pub(crate) out: &'a mut Vec<Made>,
    pub(crate) tally: &'a mut Tally,
}

/// Calls whose answer is still to come: something remembered by the id of a call, bounded.
#[derive(Debug, Default)]
pub(crate) struct Open(BTreeMap<String, String>, VecDeque<String>);

impl Open {
    pub(crate) fn insert(&mut self, id: &str, what: &str) {
        if self.0.insert(id.to_owned(), what.to_owned()).is_none() {
            self.1.push_back(id.to_owned());
        }
        if self.1.len() > OPEN_CALLS_MAX
            && let Some(oldest) = self.1.pop_front()
        {
            self.0.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }
}
