//! What two runs over one input must have in common: outputs by task, rows in force, state.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, fs::File};

use loopwarden::{event::TaskId, log::Headers};
use sha2::{Digest as _, Sha256};

/// A command or a dead letter. Its bytes are in the [`Spill`] of its run: those of millions do not fit into memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    /// Hash of its bytes.
    digest: u128,
    /// The same without what names the program and its policy.
    of_any_program: u128,
    /// Its number in the spill.
    at: u64,
}

/// An output as a reader gets it.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) task: String,
    pub(crate) ordinal: u64,
    pub(crate) id: String,
    /// Key, time, headers, value.
    pub(crate) bytes: Vec<u8>,
}

impl Seen {
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    pub(crate) const fn digest(&self) -> u128 {
        self.digest
    }
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
    /// The bytes of the outputs.
    pub(crate) spill: Option<Spill>,
}

/// A header's text.
fn header(headers: &Headers, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
}

/// A record from the topics of commands or dead letters.
pub(crate) fn read_output(key: &[u8], value: Option<&[u8]>, headers: &Headers, timestamp_ms: i64) -> Option<Read> {
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
    Some(Read { task, ordinal, id, bytes })
}

fn digest(bytes: &[u8]) -> u128 {
    let hash = Sha256::digest(bytes);
    hash.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
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

/// The bytes of a run's outputs, in a compressed file: only those that differ are ever read again.
pub(crate) struct Spill {
    path: PathBuf,
    file: Option<zstd::Encoder<'static, File>>,
    count: u64,
}

impl std::fmt::Debug for Spill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} outputs in {}", self.count, self.path.display())
    }
}

impl Spill {
    /// An empty one in a folder that may have to be made.
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let path = folder.join(name).with_extension("zst");
        let file = zstd::Encoder::new(File::create(&path).expect("a file"), 1).expect("an encoder");
        Self { path, file: Some(file), count: 0 }
    }

    /// Keeps the bytes of an output.
    pub(crate) fn keep(&mut self, id: String, mut bytes: Vec<u8>) -> Seen {
        let file = self.file.as_mut().expect("nothing was read yet");
        file.write_all(&(bytes.len() as u32).to_le_bytes()).and_then(|()| file.write_all(&bytes)).expect("written");
        let at = self.count;
        self.count += 1;
        let whole = digest(&bytes);
        cut_program(&mut bytes);
        Seen { id, digest: whole, of_any_program: digest(&bytes), at }
    }

    /// What an output said. Nothing can be kept any more.
    pub(crate) fn text(&mut self, seen: &Seen) -> String {
        if let Some(file) = self.file.take() {
            file.finish().expect("written");
        }
        let mut file = zstd::Decoder::new(File::open(&self.path).expect("a file")).expect("a decoder");
        let mut bytes = Vec::new();
        for _ in 0..=seen.at {
            let mut length = [0; 4];
            file.read_exact(&mut length).expect("a length");
            bytes.resize(u32::from_le_bytes(length) as usize, 0);
            file.read_exact(&mut bytes).expect("an output");
        }
        String::from_utf8_lossy(&bytes).replace('\n', " | ")
    }
}

impl Outcome {
    /// Forgets which program said what.
    pub(crate) fn forget_programs(&mut self) {
        self.outputs.values_mut().flatten().for_each(|seen| seen.digest = seen.of_any_program);
    }

    fn text(&mut self, seen: &Seen) -> String {
        self.spill.as_mut().map_or_else(|| seen.id.clone(), |spill| spill.text(seen))
    }

    /// Everything in which it differs from what is expected, a few examples of each kind.
    pub(crate) fn differences(&mut self, expected: &mut Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut parted = Vec::new();
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
            if let Some(at) = ours.iter().zip(theirs).position(|(ours, theirs)| !ours.is_same(theirs)) {
                parted.push((task.clone(), at, theirs[at].clone(), ours[at].clone()));
            }
            if ours.len() != theirs.len() {
                found.push(format!("{task}: {} outputs, expected {}", ours.len(), theirs.len()));
            }
        }
        for (task, at, theirs, ours) in parted {
            let (expected, ours) = (expected.text(&theirs), self.text(&ours));
            found.push(format!("{task}: output {} differs\n  expected {expected}\n  found    {ours}", at + 1));
        }
        // When a sum is judged depends on the cut, and so does when a swarm's row ends (rule W4).
        let is_of_input = |key: &[u8]| key.starts_with(b"agent") || key.starts_with(b"stop");
        let differs = |key: &[u8]| is_of_input(key) && self.rows.get(key) != expected.rows.get(key);
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
