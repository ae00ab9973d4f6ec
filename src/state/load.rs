//! Restored records of one task on their way into a store: in one piece of memory, and of each key only what was written last.

use std::cmp::Ordering;

use loopwarden_core::event::TaskId;

use crate::keys::task_prefix;
use crate::{Change, KeyFamily, StateKey};

/// Bytes that the task takes in front of each key.
const PREFIX: usize = 5;

/// Where a record lies in the batch.
#[derive(Debug, Clone, Copy)]
struct RecordSlice {
    start: u32,
    key_end: u32,
    end: u32,
    is_deletion: bool,
}

/// Records of a changelog, in its order. Nothing is allocated for a record: a restore takes millions.
#[derive(Debug)]
pub struct LoadBatch {
    task: TaskId,
    bytes: Vec<u8>,
    slots: Vec<RecordSlice>,
}

impl LoadBatch {
    /// An empty batch of a task.
    pub const fn new(task: TaskId) -> Self {
        Self { task, bytes: Vec::new(), slots: Vec::new() }
    }

    /// Takes a record as it stands in the changelog: `family, key`, and the value or a tombstone. The caller bounds the batch: it
    /// holds less than 4 GiB.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&task_prefix(self.task));
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.slots.push(RecordSlice { start, key_end, end: self.bytes.len() as u32, is_deletion: value.is_none() });
    }

    pub const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Empties it; its memory is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }

    /// Keys of the database in their order, each once, with what was written last. A store that is given keys in order finds their
    /// places faster, and what was written over nobody can see any more.
    pub(super) fn last_values(&mut self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let Self { bytes, slots, .. } = self;
        let bytes = bytes.as_slice();
        slots.sort_unstable_by(|one, two| match key(bytes, one).cmp(key(bytes, two)) {
            Ordering::Equal => one.start.cmp(&two.start),
            order => order,
        });
        let slots = slots.as_slice();
        let is_last =
            move |at: usize, slot: &RecordSlice| slots.get(at + 1).is_none_or(|next| key(bytes, next) != key(bytes, slot));
        slots.iter().enumerate().filter(move |(at, slot)| is_last(*at, slot)).map(move |(_, slot)| {
            let value = bytes.get(slot.key_end as usize..slot.end as usize).unwrap_or_default();
            (key(bytes, slot), (!slot.is_deletion).then_some(value))
        })
    }

    /// The same records as changes of the state.
    pub fn to_changes(&mut self) -> Vec<Change> {
        let task = self.task;
        let changes = self.last_values().filter_map(|(key, value)| {
            let (family, bytes) = key.get(PREFIX..)?.split_first()?;
            let key = StateKey::new(KeyFamily::from_byte(*family)?, bytes.to_vec());
            Some(Change { task, key, value: value.map(<[u8]>::to_vec) })
        });
        changes.collect()
    }
}

fn key<'a>(bytes: &'a [u8], slot: &RecordSlice) -> &'a [u8] {
    bytes.get(slot.start as usize..slot.key_end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loopwarden_core::event::Stage;
    use proptest::prelude::*;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Swarm, partition: 7 };

    proptest! {
        #[test]
        fn a_batch_holds_what_a_map_would(records in proptest::collection::vec((0u8..40, proptest::option::of(any::<u16>())), 0..200)) {
            let mut batch = LoadBatch::new(TASK);
            let mut model = BTreeMap::new();
            for (number, value) in records {
                let key = StateKey::new(KeyFamily::Head, vec![number; usize::from(number % 3)]);
                let value = value.map(|value| value.to_be_bytes().to_vec());
                batch.push(&key.to_changelog(), value.as_deref());
                model.insert(key, value);
            }
            let found: Vec<_> = batch.to_changes().into_iter().map(|change| (change.key, change.value)).collect();
            prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
            batch.clear();
            prop_assert!(batch.is_empty() && batch.to_changes().is_empty());
        }
    }
}
