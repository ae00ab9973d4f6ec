//! What binds of a table, and its text for a file: stops of operators, and blocks as long as they last.
//!
//! The text has a checksum, the source that was followed, and a state row for each subject: keys, ends and codes. What agents or people wrote
//! is not in it.

use std::{cmp::Reverse, sync::Arc};

use loopwarden_core::identity::hash_parts;
use loopwarden_core::{engine::SubjectKey, event::EventTime, wire};
use serde_json::{json, value::RawValue};

use crate::table::place::Class;
use crate::table::rows::{Rows, Subject};
use crate::wire::verdict::read_row;

/// Longest text. Bytes. What has no room is what ends first: a block, and a stop only where there is no block.
pub const KEPT_BYTES_MAX: usize = 8 << 20;
/// What a text begins with; the checksum of the rest follows.
const HEAD: &str = "loopwarden guard 1 ";

/// Subjects with what binds them.
#[derive(Debug, Default)]
pub struct Kept(pub(crate) Vec<(Arc<SubjectKey>, Subject)>);

/// Why a text is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotKept {
    /// No guard of this user has written it, or others may write it.
    Unknown,
    /// It is no longer as a guard has written it.
    Damaged,
    /// It is about another source than this one.
    Foreign,
}

impl Kept {
    /// The text about a source, and how many subjects have no room in it.
    #[must_use]
    pub fn text(mut self, source: &str) -> (String, usize) {
        self.0.sort_by_key(|(key, subject)| Reverse((Class::of(key) == Class::Stop, subject.ends_at)));
        let mut body = format!("{}\n", json!(source));
        let mut left_out = self.0.len();
        for (key, subject) in &self.0 {
            let line = line(key, subject);
            if HEAD.len() + 33 + body.len() + line.len() + 1 > KEPT_BYTES_MAX {
                break;
            }
            body.push_str(&line);
            body.push('\n');
            left_out -= 1;
        }
        (format!("{HEAD}{}\n{body}", hash_parts(&[&body]).hash128()), left_out)
    }

    /// Reads a text about this source.
    ///
    /// # Errors
    /// It is none, not whole, or about another source.
    pub fn read(text: &[u8], source: &str) -> Result<Self, NotKept> {
        let text = String::from_utf8_lossy(text);
        let rest = if text.is_empty() { "" } else { text.strip_prefix(HEAD).ok_or(NotKept::Unknown)? };
        let (checksum, body) = rest.split_once('\n').ok_or(NotKept::Damaged)?;
        if hash_parts(&[body]).hash128().to_string() != checksum {
            return Err(NotKept::Damaged);
        }
        let (of, lines) = body.split_once('\n').ok_or(NotKept::Damaged)?;
        if serde_json::from_str(of).ok() != Some(json!(source)) {
            return Err(NotKept::Foreign);
        }
        lines.lines().map(subject).collect::<Option<_>>().map(Self).ok_or(NotKept::Damaged)
    }
}

fn line(key: &SubjectKey, held: &Subject) -> String {
    let subject = wire::Subject::of(key);
    let active = held.verdicts.iter().map(|verdict| verdict.without_text(&subject)).collect();
    let (epoch, seq, expires_at) = (held.epoch, held.seq, Some(held.ends_at));
    let row = wire::Row { v: wire::VERSION, subject, status: "blocked", epoch, seq, updated_at: None, expires_at, active };
    // Structs, texts and numbers: it cannot fail.
    serde_json::to_string(&(key.row_key(), row)).unwrap_or_default()
}

fn subject(line: &str) -> Option<(Arc<SubjectKey>, Subject)> {
    let (key, row) = serde_json::from_str::<(String, &RawValue)>(line).ok()?;
    let (key, mut row) = (SubjectKey::of_row_key(&key)?, read_row(row.get().as_bytes())?);
    for stop in row.verdicts.iter_mut().filter(|_| Class::of(&key) == Class::Stop) {
        let until = stop.expires_at.to_rfc3339();
        stop.message = format!("An operator has stopped this agent until {until}. Call no tool, and end your turn.");
    }
    let ends_at = row.verdicts.iter().map(|verdict| verdict.expires_at).max()?;
    let verdicts = row.verdicts.into_iter().map(Arc::new).collect();
    Some((Arc::new(key), Subject::of(row.epoch, row.seq, verdicts, ends_at)))
}

impl Rows {
    /// Subjects with the blocks in force that bind them, those of operators among them.
    pub(crate) fn blocked(&self, now: EventTime) -> impl Iterator<Item = (Arc<SubjectKey>, Subject)> {
        self.subjects.iter().filter_map(move |(key, subject)| {
            let in_force = subject.verdicts.iter().filter(|verdict| verdict.is_block() && verdict.expires_at > now);
            let blocks: Vec<_> = in_force.map(Arc::clone).collect();
            let ends_at = blocks.iter().map(|block| block.expires_at).max()?;
            Some((Arc::clone(key), Subject::of(subject.epoch, subject.seq, blocks, ends_at)))
        })
    }

    /// Adds subjects, but for those of which enough is known beside what is new.
    pub(crate) fn keep(
        &mut self,
        subjects: impl IntoIterator<Item = (Arc<SubjectKey>, Subject)>,
        is_enough: impl Fn(&Subject, &Subject) -> bool,
    ) {
        for (key, subject) in subjects {
            if self.subjects.get(&key).is_none_or(|known| !is_enough(known, &subject)) {
                self.remove(&key);
                self.put(key, subject);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }
}
