//! A task: the records of its partition.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{EventTime, Record, Stage, decode};
use loopwarden_core::identity::{Hash64, hash_text};
use serde::Serialize;
use serde_json::{Value, json};

use super::Shown;
use crate::report::{Section, Table};

/// Sessions that are told apart; with more their number is a lower bound.
const SESSIONS_MAX: usize = 1_000_000;

/// The records of a partition of the session stage.
#[derive(Debug, Default)]
pub struct TaskTrace {
    partition: u32,
    records: u64,
    bytes: u64,
    offsets: Option<(u64, u64)>,
    times: Option<(i64, i64)>,
    counts: BTreeMap<String, u64>,
    sessions: BTreeSet<Hash64>,
}

impl TaskTrace {
    /// Nothing is read yet.
    pub fn new(partition: u32) -> Self {
        Self { partition, ..Self::default() }
    }

    /// Takes a record of the input; those of other partitions are left out.
    pub fn visit(&mut self, record: &Record<'_>) {
        let meta = &record.meta;
        if meta.partition != self.partition {
            return;
        }
        self.records += 1;
        self.bytes += record.value.map_or(0, <[u8]>::len) as u64;
        let first = self.offsets.map_or(meta.offset.0, |(first, _)| first);
        self.offsets = Some((first, meta.offset.0));
        let time = meta.timestamp.0;
        self.times = Some(self.times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        let what = match decode(record.value, meta) {
            Ok(event) => {
                if self.sessions.len() < SESSIONS_MAX {
                    self.sessions.insert(hash_text(&event.session_id).hash64());
                }
                "event".to_owned()
            }
            Err(rejected) => format!("rejected: {}", rejected.reason.as_str()),
        };
        *self.counts.entry(what).or_default() += 1;
    }

    /// What is shown of them.
    ///
    /// # Errors
    /// There was none; says so.
    pub fn show(self) -> Result<Shown, String> {
        let Self { partition, records, bytes, offsets, times, counts, sessions } = self;
        let Some((first, last)) = offsets else {
            return Err(format!("no record of partition {partition} in this input"));
        };
        let time = |at: i64| EventTime(at).to_rfc3339();
        let (earliest, latest) = times.unwrap_or_default();
        let json = json!({
            "stage": Stage::Session.as_str(),
            "partition": partition,
            "records": records,
            "bytes": bytes,
            "sessions": sessions.len(),
            "first_offset": first,
            "last_offset": last,
            "first_time": time(earliest),
            "last_time": time(latest),
            "counts": counts,
        });
        Ok(Shown { sections: vec![Section::rows("", facts(&json))], json })
    }
}

/// A field of an object.
#[derive(Serialize, Default)]
struct Fact {
    what: String,
    value: Value,
}

/// An object as rows.
pub fn facts(json: &Value) -> Table {
    let row = |what: String, value: &Value| Fact { what, value: value.clone() };
    Table::of(json.as_object().into_iter().flatten().flat_map(|(name, value)| match value {
        Value::Object(inner) => inner.iter().map(|(key, value)| row(format!("{name} {key}"), value)).collect(),
        value => vec![row(name.clone(), value)],
    }))
}
