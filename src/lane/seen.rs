//! How many counters a swarm task has, and which of them was unseen longest: the bound of its state.

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::swarm::CounterKind;
use loopwarden_state::{Change, KeyFamily, StateStore, StoreError, swarm};

use crate::sorted::SortedKeys;

/// Times are rounded down to this, so that a busy counter moves in the order once a minute and not with every commit. Milliseconds.
const GRAIN_MS: i64 = 60_000;

/// The time under which a counter stands in the order.
pub(super) fn grain(time: EventTime) -> EventTime {
    EventTime(time.0 - time.0.rem_euclid(GRAIN_MS).min(time.0.saturating_sub(i64::MIN)))
}

/// The order of a task's counters.
#[derive(Debug)]
pub(super) struct Seen {
    order: [SortedKeys; 2],
    /// How many of each kind; `None` = to be read.
    counts: Option<[u64; 2]>,
    committed: Option<[u64; 2]>,
    /// Something of the task's swarm state changed since the last commit.
    is_touched: bool,
}

impl Seen {
    pub(super) const fn new() -> Self {
        Self {
            order: [
                SortedKeys::new(KeyFamily::SwarmSeen, &[CounterKind::Swarm as u8]),
                SortedKeys::new(KeyFamily::SwarmSeen, &[CounterKind::Fleet as u8]),
            ],
            counts: None,
            committed: None,
            is_touched: false,
        }
    }

    fn order(&mut self, kind: CounterKind) -> &mut SortedKeys {
        let [swarm, fleet] = &mut self.order;
        match kind {
            CounterKind::Swarm => swarm,
            CounterKind::Fleet => fleet,
        }
    }

    /// How many there are of a kind.
    pub(super) fn count(&mut self, kind: CounterKind, store: &impl StateStore, task: TaskId) -> Result<u64, StoreError> {
        Ok(*count_of(self.load(store, task)?, kind))
    }

    fn load(&mut self, store: &impl StateStore, task: TaskId) -> Result<&mut [u64; 2], StoreError> {
        if self.counts.is_none() {
            let stored = store.get(task, &swarm::counts_key())?;
            let counts = stored.map_or(Ok([0; 2]), |bytes| swarm::decode_counts(&bytes))?;
            self.committed = Some(counts);
            self.counts = Some(counts);
        }
        Ok(self.counts.get_or_insert([0; 2]))
    }

    /// A subject was seen: for the first time (`was` is `None`), or again. Returns the time it stands under.
    pub(super) fn note(
        &mut self,
        (kind, subject): (CounterKind, &[u8]),
        was: Option<EventTime>,
        now: EventTime,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<EventTime, StoreError> {
        let now = grain(now);
        self.is_touched = true;
        if was == Some(now) {
            return Ok(now);
        }
        match was {
            Some(was) => drop(self.order(kind).remove(&swarm::seen_key(kind, was, subject))),
            None => *count_of(self.load(store, task)?, kind) += 1,
        }
        // A subject stands under one time: under another one the store does not know it.
        self.order(kind).insert_new(swarm::seen_key(kind, now, subject));
        Ok(now)
    }

    /// A subject is gone.
    pub(super) fn forget(
        &mut self,
        (kind, subject): (CounterKind, &[u8]),
        was: EventTime,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<(), StoreError> {
        self.is_touched = true;
        self.order(kind).remove(&swarm::seen_key(kind, was, subject));
        let count = count_of(self.load(store, task)?, kind);
        *count = count.saturating_sub(1);
        Ok(())
    }

    /// The key of the one unseen longest.
    pub(super) fn first(
        &mut self,
        kind: CounterKind,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.order(kind).first(store, task)?.cloned())
    }

    pub(super) const fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Gives away what changed since the last commit: the one being staged writes it, or it is rewound.
    pub(super) fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for order in &mut self.order {
            order.changes(task, out);
        }
        if let Some(counts) = self.counts
            && self.counts != self.committed
        {
            out.push(Change { task, key: swarm::counts_key(), value: Some(swarm::encode_counts(counts)?) });
        }
        Ok(())
    }

    pub(super) fn committed(&mut self) {
        self.committed = self.counts;
        self.is_touched = false;
    }

    pub(super) fn rewind(&mut self) {
        *self = Self::new();
    }
}

const fn count_of(counts: &mut [u64; 2], kind: CounterKind) -> &mut u64 {
    let [swarm, fleet] = counts;
    match kind {
        CounterKind::Swarm => swarm,
        CounterKind::Fleet => fleet,
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_state::MemoryStore;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Swarm, partition: 0 };

    #[test]
    fn times_are_rounded_down_and_the_extremes_stay_in_order() {
        for (time, rounded) in [(0, 0), (59_999, 0), (60_000, 60_000), (-1, -60_000)] {
            assert_eq!(grain(EventTime(time)), EventTime(rounded));
        }
        assert!(grain(EventTime(i64::MIN)) <= grain(EventTime(i64::MIN + 90_000)));
        assert!(grain(EventTime(i64::MAX)) > grain(EventTime(i64::MAX - 120_000)));
    }

    #[test]
    fn a_counter_that_comes_and_goes_between_two_commits_leaves_no_record() {
        let mut store = MemoryStore::new();
        let mut seen = Seen::new();
        let id = (CounterKind::Swarm, &b"a"[..]);
        let told = |seen: &mut Seen, store: &mut MemoryStore| {
            let mut changes = Vec::new();
            seen.changes(TASK, &mut changes).unwrap();
            seen.committed();
            let keys = changes.iter().filter(|change| change.key.family == KeyFamily::SwarmSeen);
            let told: Vec<bool> = keys.map(|change| change.value.is_some()).collect();
            store.commit(changes).unwrap();
            told
        };
        let first = seen.note(id, None, EventTime(60_000), &store, TASK).unwrap();
        let moved = seen.note(id, Some(first), EventTime(120_000), &store, TASK).unwrap();
        seen.forget(id, moved, &store, TASK).unwrap();
        assert_eq!(told(&mut seen, &mut store), [false; 0]);
        // What the store has must be taken out of it, also when it comes back in between.
        seen.note(id, None, EventTime(60_000), &store, TASK).unwrap();
        assert_eq!(told(&mut seen, &mut store), [true]);
        seen.forget(id, first, &store, TASK).unwrap();
        seen.note(id, None, EventTime(60_000), &store, TASK).unwrap();
        seen.forget(id, first, &store, TASK).unwrap();
        assert_eq!(told(&mut seen, &mut store), [false]);
    }

    #[test]
    fn the_longest_unseen_comes_first_also_after_a_commit_and_an_abort() {
        let mut store = MemoryStore::new();
        let mut seen = Seen::new();
        let note = |seen: &mut Seen, store: &MemoryStore, subject: &[u8], was: Option<i64>, now: i64| {
            seen.note((CounterKind::Swarm, subject), was.map(EventTime), EventTime(now), store, TASK).unwrap();
        };
        note(&mut seen, &store, b"a", None, 60_000);
        note(&mut seen, &store, b"b", None, 120_000);
        let first = |seen: &mut Seen, store: &MemoryStore| seen.first(CounterKind::Swarm, store, TASK).unwrap().unwrap();
        assert_eq!(swarm::seen_subject(&first(&mut seen, &store)), b"a");
        let mut changes = Vec::new();
        seen.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        seen.committed();
        note(&mut seen, &store, b"a", Some(60_000), 180_000);
        assert_eq!(swarm::seen_subject(&first(&mut seen, &store)), b"b");
        seen.forget((CounterKind::Swarm, b"b"), EventTime(120_000), &store, TASK).unwrap();
        assert_eq!(swarm::seen_subject(&first(&mut seen, &store)), b"a");
        assert_eq!(seen.count(CounterKind::Swarm, &store, TASK), Ok(1));
        seen.rewind();
        assert_eq!(seen.count(CounterKind::Swarm, &store, TASK), Ok(2));
        assert_eq!(seen.count(CounterKind::Fleet, &store, TASK), Ok(0));
        assert_eq!(swarm::seen_subject(&first(&mut seen, &store)), b"a");
    }
}
