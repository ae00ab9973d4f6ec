//! What two runs over one input must have in common: outputs by task, rows in force, state.

use std::collections::BTreeMap;

use loopwarden::event::TaskId;
use loopwarden::log::Headers;

/// A command or a dead letter, with every byte a reader sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    /// Key, time, headers, value.
    pub(crate) bytes: Vec<u8>,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// By task, in the order of their ordinals.
    pub(crate) outputs: BTreeMap<String, Vec<Seen>>,
    /// The last row of each subject that has one.
    pub(crate) rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Hash of each task's state.
    pub(crate) states: BTreeMap<TaskId, u64>,
}

/// A header's text.
fn header(headers: &Headers, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Task, ordinal and content of a record from the topics of commands or dead letters.
pub(crate) fn read_output(key: &[u8], value: Option<&[u8]>, headers: &Headers, timestamp_ms: i64) -> Option<(String, u64, Seen)> {
    let task = header(headers, "lw_task")?;
    let ordinal = header(headers, "lw_ordinal")?.parse().ok()?;
    let id = match header(headers, "ce_id") {
        Some(id) if header(headers, "dlq.reason").is_none() => id,
        _ => {
            let part = |name| header(headers, name);
            format!("{}/{}/{}", part("dlq.topic")?, part("dlq.partition")?, part("dlq.offset")?)
        }
    };
    let mut bytes = key.to_vec();
    bytes.extend(format!("\n{timestamp_ms}").bytes());
    for (name, value) in headers.iter() {
        bytes.extend(format!("\n{name}: ").bytes());
        bytes.extend(value);
    }
    bytes.push(b'\n');
    bytes.extend(value.unwrap_or(b"(none)"));
    Some((task, ordinal, Seen { id, bytes }))
}

/// Cuts out what names the program and its policy: of two programs that is all in which they may differ.
fn cut_program(bytes: &mut Vec<u8>) {
    let place = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).rposition(|window| window == name);
    if let Some(at) = place(bytes, br#","engine":{"#) {
        bytes.truncate(at);
    }
    if let Some(at) = place(bytes, b"\ndlq.policy: ") {
        let length = bytes[at + 1..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at - 1);
        bytes.drain(at..=at + length);
    }
}

impl Outcome {
    /// Forgets which program said what.
    pub(crate) fn forget_programs(&mut self) {
        let outputs = self.outputs.values_mut().flatten();
        outputs.for_each(|seen| cut_program(&mut seen.bytes));
    }

    /// Everything in which it differs from what is expected, a few examples of each kind.
    pub(crate) fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let none = Vec::new();
        for task in expected.outputs.keys().chain(self.outputs.keys()) {
            let (ours, theirs) = (self.outputs.get(task).unwrap_or(&none), expected.outputs.get(task).unwrap_or(&none));
            if task.starts_with("swarm/") {
                // When a sum is judged depends on the cut; what it crosses does not (rule W4).
                let ids = |seen: &[Seen]| seen.iter().map(|seen| seen.id.clone()).collect::<std::collections::BTreeSet<_>>();
                let (ours, theirs) = (ids(ours), ids(theirs));
                if ours != theirs {
                    found.push(format!(
                        "{task}: missing {:?}, too many {:?}",
                        theirs.difference(&ours).take(3).collect::<Vec<_>>(),
                        ours.difference(&theirs).take(3).collect::<Vec<_>>()
                    ));
                }
                continue;
            }
            if let Some(at) = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs) {
                found.push(format!(
                    "{task}: output {} differs\n  expected {}\n  found    {}",
                    at + 1,
                    String::from_utf8_lossy(&theirs[at].bytes).replace('\n', " | "),
                    String::from_utf8_lossy(&ours[at].bytes).replace('\n', " | ")
                ));
            }
            if ours.len() != theirs.len() {
                found.push(format!("{task}: {} outputs, expected {}", ours.len(), theirs.len()));
            }
        }
        // When a sum is judged depends on the cut, and so does when a swarm's row ends (rule W4).
        let differs = |key: &[u8]| key.starts_with(b"agent") && self.rows.get(key) != expected.rows.get(key);
        let rows: Vec<&Vec<u8>> = self.rows.keys().chain(expected.rows.keys()).filter(|key| differs(key)).collect();
        if let Some(example) = rows.first() {
            let text =
                |rows: &BTreeMap<Vec<u8>, Vec<u8>>| rows.get(*example).map(|row| String::from_utf8_lossy(row).into_owned());
            found.push(format!(
                "{} rows in force differ, as {:?}\n  expected {:?}\n  found    {:?}",
                rows.len(),
                String::from_utf8_lossy(example),
                text(&expected.rows),
                text(&self.rows)
            ));
        }
        for (task, hash) in &expected.states {
            if self.states.get(task) != Some(hash) {
                found.push(format!("{task}: state {:x?}, expected {hash:x}", self.states.get(task)));
            }
        }
        found.sort();
        found.dedup();
        found
    }
}
