//! A task: the records of its partition.

use std::collections::{BTreeMap, BTreeSet};

use loopwarden_core::event::{Stage, decode};
use loopwarden_core::identity::hash_text;
use loopwarden_lab::report::Table;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::args::{InspectArgs, LogArgs};
use crate::cli::inspect::shown::{Part, Shown, not_found};
use crate::cli::inspect::source::Input;
use crate::cli::task_name::task_of;
use crate::exit_code;
use crate::failure::Failure;

/// Sessions that are told apart; with more their number is a lower bound.
const SESSIONS_MAX: usize = 1_000_000;

/// Reads the records of a partition.
pub(super) fn inspect(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let (stage, partition) = task_of(&args.id)?;
    if stage == Stage::Swarm {
        let what = "error: records of the swarm stage are sums that a live run sends itself; ask the running process, or inspect swarm ID";
        return Err(Failure::new(exit_code::USAGE, what));
    }
    let input = Input::of(args, log)?;
    let (mut records, mut bytes) = (0_u64, 0_u64);
    let mut offsets: Option<(u64, u64)> = None;
    let mut times: Option<(i64, i64)> = None;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut sessions = BTreeSet::new();
    input.read(|record| {
        let meta = &record.meta;
        if meta.partition != partition {
            return;
        }
        records += 1;
        bytes += record.value.map_or(0, <[u8]>::len) as u64;
        offsets = Some(offsets.map_or((meta.offset.0, meta.offset.0), |(first, _)| (first, meta.offset.0)));
        let time = meta.timestamp.0;
        times = Some(times.map_or((time, time), |(first, last)| (first.min(time), last.max(time))));
        let what = match decode(record.value, meta) {
            Ok(event) => {
                if sessions.len() < SESSIONS_MAX {
                    sessions.insert(hash_text(&event.session_id).hash64());
                }
                "event".to_owned()
            }
            Err(rejected) => format!("rejected: {}", rejected.reason.as_str()),
        };
        *counts.entry(what).or_default() += 1;
    })?;
    let Some((first, last)) = offsets else {
        return Err(not_found(&format!("no record of partition {partition} in this input")));
    };
    let time = |at: i64| loopwarden_core::event::EventTime(at).to_rfc3339();
    let (earliest, latest) = times.unwrap_or_default();
    let json = json!({
        "stage": stage.as_str(),
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
    Ok(Shown { parts: vec![Part::Table(facts(&json))], json })
}

/// A field of an object.
#[derive(Serialize, Default)]
struct Fact {
    what: String,
    value: Value,
}

/// An object as rows.
pub(super) fn facts(json: &Value) -> Table {
    let row = |what: String, value: &Value| Fact { what, value: value.clone() };
    Table::of(json.as_object().into_iter().flatten().flat_map(|(name, value)| match value {
        Value::Object(inner) => inner.iter().map(|(key, value)| row(format!("{name} {key}"), value)).collect(),
        value => vec![row(name.clone(), value)],
    }))
}
