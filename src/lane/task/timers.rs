//! The timers of one task: those due next in memory, the rest in the store, the changes since the last commit on top.
//!
//! The bytes of a timer's key sort as timers fire (rule I4), so a sorted set of keys is the queue.

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::{Change, KeyFamily, StateStore, StoreError, TimerKey};

use crate::{memory::sorted::SortedKeys, memory::uncommitted::Uncommitted};

/// Timers of a task.
#[derive(Debug)]
pub(crate) struct TimerQueue {
    keys: SortedKeys,
    /// When the first one is due; `None` = to be looked up.
    next: Option<i64>,
}

impl TimerQueue {
    pub(crate) const fn new() -> Self {
        Self { keys: SortedKeys::new(KeyFamily::Timer, &[]), next: None }
    }

    /// The key of the first timer due at `watermark` or before. One compare where none is.
    pub(crate) fn due(
        &mut self,
        store: &dyn StateStore,
        task: TaskId,
        watermark: EventTime,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if self.next.is_some_and(|next| next > watermark.0) {
            return Ok(None);
        }
        let first = self.keys.first(store, task)?;
        let due = first.and_then(|key| TimerKey::decode(key)).map_or(i64::MAX, |key| key.due.0);
        self.next = Some(due);
        Ok(first.filter(|_| due <= watermark.0).cloned())
    }

    /// Arms a timer.
    pub(crate) fn set(&mut self, key: &TimerKey<'_>) {
        self.next = self.next.map(|next| next.min(key.due.0));
        self.keys.insert(key.encode());
    }

    /// Disarms a timer.
    pub(crate) fn remove(&mut self, bytes: &[u8]) {
        if self.keys.remove(bytes) {
            self.next = None;
        }
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.keys.is_changed()
    }
}

impl Uncommitted for TimerQueue {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        self.keys.changes(task, out);
        Ok(())
    }

    fn committed(&mut self) {}

    fn rewind(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use loopwarden_core::event::Stage;
    use loopwarden_state::MemoryStore;
    use proptest::prelude::*;

    use super::*;

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

    #[test]
    fn a_timer_that_comes_and_goes_between_two_commits_leaves_no_record() {
        let mut store = MemoryStore::new();
        let mut queue = TimerQueue::new();
        let timer = |due| TimerKey { due: EventTime(due), kind: 1, subject: b"s" };
        assert_eq!(queue.due(&store, TASK, EventTime(0)).unwrap(), None);
        queue.set(&timer(5));
        queue.remove(&timer(5).encode());
        assert!(!queue.is_changed());
        // What the store has must be taken out of it, also when it comes back in between.
        queue.set(&timer(7));
        let mut changes = Vec::new();
        queue.changes(TASK, &mut changes).unwrap();
        store.commit(std::mem::take(&mut changes)).unwrap();
        assert!(!queue.is_changed());
        queue.remove(&timer(7).encode());
        queue.set(&timer(7));
        queue.remove(&timer(7).encode());
        queue.changes(TASK, &mut changes).unwrap();
        assert_eq!(changes.iter().map(|change| change.value.is_none()).collect::<Vec<_>>(), [true]);
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
                        queue.changes(TASK, &mut changes).unwrap();
                        store.commit(changes).unwrap();
                        committed = model.clone();
                        let mut stored = BTreeSet::new();
                        let mut note = |key: &[u8], _: &[u8]| {
                            stored.insert(key.to_vec());
                            std::ops::ControlFlow::Continue(())
                        };
                        store.scan(TASK, KeyFamily::Timer, &[], &[], &mut note).unwrap();
                        prop_assert_eq!(&stored, &committed);
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
