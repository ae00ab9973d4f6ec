//! What processes take of the machine while they work, and whether it grows.

use std::{fs, path::Path, time::Duration};

use crate::process::Process;

/// Between two samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// What a process takes at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at_ms: u64,
    resident_kib: u64,
    descriptors: u64,
    threads: u64,
    disk_kib: u64,
}

/// A column of the table: its name, how much of it may come from the second quarter to the last (a part of it), and where it is.
type Column = (&'static str, f64, fn(&Sample) -> u64);

const COLUMNS: [Column; 4] = [
    ("resident, KiB", 0.10, |sample| sample.resident_kib),
    // Of these most are files of the store, which come and go.
    ("descriptors", 0.20, |sample| sample.descriptors),
    ("threads", 0.0, |sample| sample.threads),
    ("disk, KiB", 0.25, |sample| sample.disk_kib),
];

/// The samples of one process over a run.
#[derive(Debug)]
pub(crate) struct Series {
    name: String,
    long_ms: u64,
    samples: Vec<Sample>,
}

impl Series {
    /// None yet, of a run that takes so long.
    pub(crate) const fn new(name: String, long_ms: u64) -> Self {
        Self { name, long_ms, samples: Vec::new() }
    }

    /// Adds what the system says of a process; nothing where it has just ended.
    pub(crate) fn note(&mut self, process: &Process, at_ms: u64) {
        self.samples.extend(sample(process, at_ms));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Mean of a column in one quarter of the time.
    fn mean(&self, quarter: u64, of: fn(&Sample) -> u64) -> f64 {
        let is_in = |sample: &&Sample| sample.at_ms * 4 / self.long_ms == quarter;
        let (count, sum) =
            self.samples.iter().filter(is_in).fold((0_u32, 0), |(count, sum), sample| (count + 1, sum + of(sample)));
        sum as f64 / f64::from(count.max(1))
    }

    /// What has grown, and by what part.
    pub(crate) fn grown(&self) -> Vec<String> {
        let mut grown = Vec::new();
        for (name, most, of) in COLUMNS {
            let (before, after) = (self.mean(1, of), self.mean(3, of));
            if after > before * (1.0 + most) {
                grown.push(format!("{}: {name}: {before:.0} in the second quarter, {after:.0} in the last", self.name));
            }
        }
        grown
    }

    /// Its rows of the table of quarters.
    pub(crate) fn rows(&self) -> String {
        let row = |(name, _, of): Column| {
            let [one, two, three, four] = [0, 1, 2, 3].map(|quarter| self.mean(quarter, of));
            format!("| {} | {name} | {one:.0} | {two:.0} | {three:.0} | {four:.0} |\n", self.name)
        };
        COLUMNS.into_iter().map(row).collect()
    }
}

/// The head of the table of quarters.
pub(crate) const HEAD: &str = "| process | | first | second | third | last |\n|---|---|---|---|---|---|\n";

fn sample(process: &Process, at_ms: u64) -> Option<Sample> {
    let proc = Path::new("/proc").join(process.id()?.to_string());
    let status = fs::read_to_string(proc.join("status")).ok()?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(Sample {
        at_ms,
        resident_kib: number("VmRSS:")?,
        descriptors: fs::read_dir(proc.join("fd")).ok()?.count() as u64,
        threads: number("Threads:")?,
        disk_kib: bytes_below(&process.data_dir()) / 1_024,
    })
}

/// Bytes of all files below a folder; files that go meanwhile are none.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}
