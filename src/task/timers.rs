//! The timers of one task: those due next in memory, the rest in the store, the changes since the last commit on top.
//!
//! The bytes of a timer's key sort as timers fire (rule I4), so a sorted set of keys is the queue.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::ops::ControlFlow;

use crate::event::EventTime;
use crate::event::TaskId;
use crate::limits::TIMERS_HELD_MAX;
use crate::store::Change;
use crate::store::KeyFamily;
use crate::store::StateKey;
use crate::store::StateStore;
use crate::store::StoreError;
use crate::store::TimerKey;

/// Value of a timer's record: its format version. The key says the rest.
const VALUE: [u8; 1] = [1];
/// Timers read from the store at a time.
const READ: usize = 256;

type Key = Vec<u8>;

/// How far [`TimerQueue::held`] is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Complete {
    /// Nothing was read yet.
    Nothing,
    /// Every timer up to this key is held.
    To(Key),
    /// All are held.
    All,
}

/// Timers of a task.
#[derive(Debug)]
pub(super) struct TimerQueue {
    held: BTreeSet<Key>,
    complete: Complete,
    /// Set or removed since the last commit.
    changed: BTreeMap<Key, bool>,
    /// When the first one is due; `None` = to be looked up.
    next: Option<i64>,
}

impl TimerQueue {
    pub(super) const fn new() -> Self {
        Self { held: BTreeSet::new(), complete: Complete::Nothing, changed: BTreeMap::new(), next: None }
    }

    /// The key of the first timer due at `watermark` or before. One compare where none is.
    pub(super) fn due(&mut self, store: &impl StateStore, task: TaskId, watermark: EventTime) -> Result<Option<Key>, StoreError> {
        if self.next.is_some_and(|next| next > watermark.0) {
            return Ok(None);
        }
        while self.held.is_empty() && self.complete != Complete::All {
            self.read(store, task)?;
        }
        let first = self.held.first();
        let due = first.and_then(|key| TimerKey::decode(key)).map_or(i64::MAX, |key| key.due.0);
        self.next = Some(due);
        Ok(first.filter(|_| due <= watermark.0).cloned())
    }

    /// Arms a timer.
    pub(super) fn set(&mut self, key: &TimerKey<'_>) {
        let bytes = key.encode();
        self.next = self.next.map(|next| next.min(key.due.0));
        let is_in_reach = match &self.complete {
            Complete::Nothing => false,
            Complete::To(last) => bytes <= *last,
            Complete::All => true,
        };
        if is_in_reach {
            self.held.insert(bytes.clone());
            if self.held.len() > TIMERS_HELD_MAX {
                self.held.pop_last();
                if let Some(last) = self.held.last() {
                    self.complete = Complete::To(last.clone());
                }
            }
        }
        self.changed.insert(bytes, true);
    }

    /// Disarms a timer.
    pub(super) fn remove(&mut self, bytes: &[u8]) {
        if self.held.remove(bytes) {
            self.next = None;
        }
        self.changed.insert(bytes.to_vec(), false);
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Timers changed since the last commit.
    pub(super) fn changes(&self, task: TaskId, out: &mut Vec<Change>) {
        out.extend(self.changed.iter().map(|(key, is_set)| Change {
            task,
            key: StateKey::new(KeyFamily::Timer, key.clone()),
            value: is_set.then(|| VALUE.to_vec()),
        }));
    }

    /// The store has the changes.
    pub(super) fn committed(&mut self) {
        self.changed.clear();
    }

    /// The changes never happened.
    pub(super) fn rewind(&mut self) {
        *self = Self::new();
    }

    fn read(&mut self, store: &impl StateStore, task: TaskId) -> Result<(), StoreError> {
        let from = match &self.complete {
            Complete::Nothing => Key::new(),
            Complete::To(last) => {
                // The smallest key above it.
                let mut from = last.clone();
                from.push(0);
                from
            }
            Complete::All => return Ok(()),
        };
        let mut seen = 0;
        let mut last = None;
        let (changed, held) = (&self.changed, &mut self.held);
        store.scan(task, KeyFamily::Timer, &[], &from, &mut |key, _| {
            seen += 1;
            last = Some(key.to_vec());
            if changed.get(key) != Some(&false) {
                held.insert(key.to_vec());
            }
            if seen < READ { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let to = last.filter(|_| seen >= READ);
        let end = to.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let set = self.changed.range::<Key, _>((Bound::Included(&from), end)).filter(|(_, is_set)| **is_set);
        self.held.extend(set.map(|(key, _)| key.clone()));
        self.complete = to.map_or(Complete::All, Complete::To);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::Stage;
    use crate::store::MemoryStore;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    #[derive(Debug, Clone)]
    enum Op {
        Set(i64, u16),
        Remove(i64, u16),
        Fire(i64),
        Commit,
        Abort,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let timer = (0i64..2_000, 0u16..4);
        proptest::collection::vec(
            prop_oneof![
                8 => timer.clone().prop_map(|(due, subject)| Op::Set(due, subject)),
                2 => timer.prop_map(|(due, subject)| Op::Remove(due, subject)),
                3 => (0i64..2_000).prop_map(Op::Fire),
                1 => Just(Op::Commit),
                1 => Just(Op::Abort),
            ],
            0..1_500,
        )
    }

    fn key(due: i64, subject: u16) -> Vec<u8> {
        TimerKey { due: EventTime(due), kind: 1, subject: &subject.to_be_bytes() }.encode()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_queue_fires_what_one_sorted_set_would(ops in ops()) {
            let mut store = MemoryStore::new();
            let mut queue = TimerQueue::new();
            let (mut model, mut committed) = (BTreeSet::new(), BTreeSet::new());
            for op in ops {
                match op {
                    Op::Set(due, subject) => {
                        let subject = subject.to_be_bytes();
                        let timer = TimerKey { due: EventTime(due), kind: 1, subject: &subject };
                        queue.set(&timer);
                        model.insert(timer.encode());
                    }
                    Op::Remove(due, subject) => {
                        queue.remove(&key(due, subject));
                        model.remove(&key(due, subject));
                    }
                    Op::Fire(watermark) => loop {
                        let expected = model.first().filter(|key| TimerKey::decode(key).unwrap().due.0 <= watermark).cloned();
                        let found = queue.due(&store, TASK, EventTime(watermark)).unwrap();
                        prop_assert_eq!(&found, &expected);
                        let Some(found) = found else { break };
                        queue.remove(&found);
                        model.remove(&found);
                    },
                    Op::Commit => {
                        let mut changes = Vec::new();
                        queue.changes(TASK, &mut changes);
                        store.commit(&changes).unwrap();
                        queue.committed();
                        committed = model.clone();
                    }
                    Op::Abort => {
                        queue.rewind();
                        model = committed.clone();
                    }
                }
            }
        }
    }
}
