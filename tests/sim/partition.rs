//! One partition: data and control records, what of it is visible.

use std::collections::{BTreeMap, BTreeSet};

/// One record, as a reader or a test sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryRecord {
    /// Partition it stands in.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Headers in order; a value may be null.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Record timestamp, Unix ms.
    pub timestamp_ms: i64,
}

#[derive(Debug)]
struct Entry {
    offset: u64,
    transaction: Option<u64>,
    /// `None` is a control record: it takes an offset and is never seen.
    record: Option<MemoryRecord>,
}

/// A log with transactions. Offsets have gaps: control records, aborted records, compaction.
#[derive(Debug, Default)]
pub(super) struct Partition {
    entries: Vec<Entry>,
    start: u64,
    next: u64,
    /// Open transactions: number, first offset.
    open: BTreeMap<u64, u64>,
    aborted: BTreeSet<u64>,
}

impl Partition {
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    pub(super) const fn high_watermark(&self) -> u64 {
        self.next
    }

    /// Last stable offset: nothing from here on is visible to a `read_committed` reader.
    pub(super) fn stable(&self) -> u64 {
        self.open.values().copied().min().unwrap_or(self.next)
    }

    pub(super) fn append(&mut self, transaction: Option<u64>, record: MemoryRecord) -> u64 {
        let offset = self.next;
        self.next += 1;
        if let Some(number) = transaction {
            self.open.entry(number).or_insert(offset);
        }
        self.entries.push(Entry { offset, transaction, record: Some(MemoryRecord { offset, ..record }) });
        offset
    }

    /// Writes the marker that ends a transaction here.
    pub(super) fn end(&mut self, transaction: u64, commit: bool) {
        if self.open.remove(&transaction).is_none() {
            return;
        }
        if !commit {
            self.aborted.insert(transaction);
        }
        self.entries.push(Entry { offset: self.next, transaction: Some(transaction), record: None });
        self.next += 1;
    }

    /// Records from `from` on, as a `read_committed` reader sees them.
    pub(super) fn committed(&self, from: u64) -> impl Iterator<Item = &MemoryRecord> {
        let stable = self.stable();
        self.all(from)
            .take_while(move |(record, _)| record.offset < stable)
            .filter(|(_, aborted)| !aborted)
            .map(|(record, _)| record)
    }

    /// Every record from `from` on, aborted and undecided ones too, and whether it is aborted.
    pub(super) fn all(&self, from: u64) -> impl Iterator<Item = (&MemoryRecord, bool)> {
        let first = self.entries.partition_point(|entry| entry.offset < from);
        self.entries.iter().skip(first).filter_map(|entry| {
            let aborted = entry.transaction.is_some_and(|number| self.aborted.contains(&number));
            entry.record.as_ref().map(|record| (record, aborted))
        })
    }

    /// Keeps of each key its last visible record; with `tombstones`, drops also keys whose last record is one.
    pub(super) fn compact(&mut self, tombstones: bool) {
        let stable = self.stable();
        let mut last: BTreeMap<Vec<u8>, (u64, bool)> = BTreeMap::new();
        for record in self.committed(self.start) {
            if let Some(key) = &record.key {
                last.insert(key.clone(), (record.offset, record.value.is_none()));
            }
        }
        let keep: BTreeSet<u64> =
            last.values().filter(|(_, tombstone)| !(tombstones && *tombstone)).map(|(offset, _)| *offset).collect();
        self.entries.retain(|entry| entry.offset >= stable || keep.contains(&entry.offset));
    }

    /// Forgets everything before `start`, as retention does.
    pub(super) fn trim(&mut self, start: u64) {
        self.start = self.start.max(start.min(self.next));
        let start = self.start;
        self.entries.retain(|entry| entry.offset >= start);
    }
}
