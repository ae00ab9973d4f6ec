//! How many counters a swarm task has, which of them was unseen longest, and whose they are: the bound of its state, and each tenant's
//! share of it.

use loopwarden_core::engine::SEPARATOR;
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::shares::Shares;
use loopwarden_state::swarm::CounterKind;
use loopwarden_state::{Change, KeyFamily, StateStore, StoreError, swarm};

use crate::memory::{held::Held, sorted::SortedKeys, uncommitted::Uncommitted};

/// Times are rounded down to this, so that a busy counter moves in the order once a minute and not with every commit. Milliseconds.
const GRAIN_MS: i64 = 60_000;

/// The time under which a counter stands in the order.
pub(crate) fn grain(time: EventTime) -> EventTime {
    EventTime(time.0 - time.0.rem_euclid(GRAIN_MS).min(time.0.saturating_sub(i64::MIN)))
}

/// The next time above it.
fn next_grain(time: EventTime) -> EventTime {
    grain(time.plus_ms(GRAIN_MS))
}

/// Whose a counter or swarm is: the first part of its key.
fn tenant_of(subject: &[u8]) -> &[u8] {
    subject.split(|byte| *byte == SEPARATOR as u8).next().unwrap_or_default()
}

/// Counters of each tenant. Read from the order when there are too many counters for the first time, and kept from then on.
#[derive(Debug, Default)]
struct Tenants {
    shares: Shares<Vec<u8>>,
    /// Since the last commit: a tenant, and whether it got a counter or lost one.
    changes: Vec<(Vec<u8>, bool)>,
}

impl Tenants {
    fn note(&mut self, tenant: &[u8], is_more: bool) {
        self.count(tenant, is_more);
        self.changes.push((tenant.to_vec(), is_more));
    }

    fn count(&mut self, tenant: &[u8], is_more: bool) {
        let tenant = tenant.to_vec();
        if is_more { self.shares.take(&tenant, 1) } else { self.shares.give_back(&tenant, 1) }
    }

    fn rewind(&mut self) {
        for (tenant, is_more) in std::mem::take(&mut self.changes).into_iter().rev() {
            self.count(&tenant, !is_more);
        }
    }
}

/// The order of a task's counters.
#[derive(Debug)]
pub(crate) struct Seen {
    order: [SortedKeys; CounterKind::COUNT],
    /// How many of each kind, under the empty key.
    counts: Held<[u64; CounterKind::COUNT]>,
    /// By kind; `None` = not needed yet.
    tenants: [Option<Tenants>; CounterKind::COUNT],
    /// Something of the task's swarm state changed since the last commit.
    is_touched: bool,
}

impl Seen {
    pub(crate) fn new() -> Self {
        Self {
            order: [
                SortedKeys::new(KeyFamily::SwarmSeen, &[CounterKind::Swarm as u8]),
                SortedKeys::new(KeyFamily::SwarmSeen, &[CounterKind::Fleet as u8]),
                SortedKeys::new(KeyFamily::SwarmSeen, &[CounterKind::Budget as u8]),
            ],
            counts: Held::new(),
            tenants: [None, None, None],
            is_touched: false,
        }
    }

    fn order(&mut self, kind: CounterKind) -> &mut SortedKeys {
        let [swarm, fleet, budget] = &mut self.order;
        match kind {
            CounterKind::Swarm => swarm,
            CounterKind::Fleet => fleet,
            CounterKind::Budget => budget,
        }
    }

    /// How many there are of a kind.
    pub(crate) fn count(&mut self, kind: CounterKind, store: &dyn StateStore, task: TaskId) -> Result<u64, StoreError> {
        let mut counts = self.counts.get(&[], store, task)?.unwrap_or_default();
        Ok(*count_of(&mut counts, kind))
    }

    fn load(&mut self, store: &dyn StateStore, task: TaskId) -> Result<&mut [u64; CounterKind::COUNT], StoreError> {
        Ok(self.counts.get(&[], store, task)?.get_or_insert_default())
    }

    /// A subject was seen: for the first time (`was` is `None`), or again. Returns the time it stands under.
    pub(crate) fn note(
        &mut self,
        (kind, subject): (CounterKind, &[u8]),
        was: Option<EventTime>,
        now: EventTime,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<EventTime, StoreError> {
        let now = grain(now);
        self.is_touched = true;
        if was == Some(now) {
            return Ok(now);
        }
        if let Some(was) = was {
            self.order(kind).remove(&swarm::seen_key(kind, was, subject));
        } else {
            *count_of(self.load(store, task)?, kind) += 1;
            self.note_share(kind, subject, true);
        }
        // A subject stands under one time: under another one the store does not know it.
        self.order(kind).insert_new(swarm::seen_key(kind, now, subject));
        Ok(now)
    }

    /// A subject is gone.
    pub(crate) fn forget(
        &mut self,
        (kind, subject): (CounterKind, &[u8]),
        was: EventTime,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<(), StoreError> {
        self.is_touched = true;
        self.order(kind).remove(&swarm::seen_key(kind, was, subject));
        let count = count_of(self.load(store, task)?, kind);
        *count = count.saturating_sub(1);
        self.note_share(kind, subject, false);
        Ok(())
    }

    /// A subject is spared although it was unseen longest: it goes behind what was seen until `until`. The time it stands under.
    pub(crate) fn spare(&mut self, (kind, subject): (CounterKind, &[u8]), was: EventTime, until: EventTime) -> EventTime {
        let now = next_grain(was).max(grain(until));
        self.is_touched = true;
        self.order(kind).remove(&swarm::seen_key(kind, was, subject));
        self.order(kind).insert_new(swarm::seen_key(kind, now, subject));
        now
    }

    /// Whether the tenant of a subject has more than its share of `keys_max`: that divided by the tenants that have any.
    pub(crate) fn is_over_share(
        &mut self,
        (kind, subject): (CounterKind, &[u8]),
        keys_max: u64,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<bool, StoreError> {
        if self.tenants.get(kind as usize).is_some_and(Option::is_none) {
            let mut tenants = Tenants::default();
            self.order(kind).each(store, task, |key| tenants.count(tenant_of(swarm::seen_subject(key)), true))?;
            if let Some(slot) = self.tenants.get_mut(kind as usize) {
                *slot = Some(tenants);
            }
        }
        let tenants = self.tenants.get(kind as usize).and_then(Option::as_ref);
        Ok(tenants.is_some_and(|tenants| tenants.shares.is_over(&tenant_of(subject).to_vec(), keys_max as usize)))
    }

    fn note_share(&mut self, kind: CounterKind, subject: &[u8], is_more: bool) {
        if let Some(Some(tenants)) = self.tenants.get_mut(kind as usize) {
            tenants.note(tenant_of(subject), is_more);
        }
    }

    /// The key of the one unseen longest.
    pub(crate) fn first(
        &mut self,
        kind: CounterKind,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.order(kind).first(store, task)?.cloned())
    }

    pub(crate) const fn is_touched(&self) -> bool {
        self.is_touched
    }
}

impl Uncommitted for Seen {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for order in &mut self.order {
            order.changes(task, out);
        }
        self.counts.changes(task, out)
    }

    fn committed(&mut self) {
        self.counts.committed();
        self.is_touched = false;
        self.tenants.iter_mut().flatten().for_each(|tenants| tenants.changes.clear());
    }

    fn rewind(&mut self) {
        let mut tenants = std::mem::take(&mut self.tenants);
        tenants.iter_mut().flatten().for_each(Tenants::rewind);
        *self = Self { tenants, ..Self::new() };
    }
}

const fn count_of(counts: &mut [u64; CounterKind::COUNT], kind: CounterKind) -> &mut u64 {
    let [swarm, fleet, budget] = counts;
    match kind {
        CounterKind::Swarm => swarm,
        CounterKind::Fleet => fleet,
        CounterKind::Budget => budget,
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

    #[test]
    fn a_tenant_is_over_its_share_when_it_has_more_than_each_may_have_and_an_abort_does_not_show() {
        let (mut store, mut seen) = (MemoryStore::new(), Seen::new());
        let note = |seen: &mut Seen, store: &MemoryStore, subject: &str| {
            seen.note((CounterKind::Swarm, subject.as_bytes()), None, EventTime(0), store, TASK).unwrap();
        };
        let is_over = |seen: &mut Seen, store: &MemoryStore, subject: &str| {
            seen.is_over_share((CounterKind::Swarm, subject.as_bytes()), 4, store, TASK).unwrap()
        };
        (0..3).for_each(|number| note(&mut seen, &store, &format!("a\u{1f}w{number}\u{1f}0")));
        let mut changes = Vec::new();
        seen.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        seen.committed();
        assert!(!is_over(&mut seen, &store, "a\u{1f}w"));
        note(&mut seen, &store, "b\u{1f}w\u{1f}0");
        assert!(is_over(&mut seen, &store, "a\u{1f}w") && !is_over(&mut seen, &store, "b\u{1f}w"));
        // What was not committed never was, and what is counted anew is the same.
        seen.rewind();
        assert!(!is_over(&mut seen, &store, "a\u{1f}w"));
        note(&mut seen, &store, "b\u{1f}w\u{1f}0");
        assert!(is_over(&mut seen, &store, "a\u{1f}w"));
        // Spared, it stands behind the others, also where all were seen in one minute.
        let spared = seen.spare((CounterKind::Swarm, b"a\x1fw0\x1f0"), EventTime(0), EventTime(0));
        assert_eq!(spared, EventTime(60_000));
        let first = seen.first(CounterKind::Swarm, &store, TASK).unwrap().unwrap();
        assert_eq!(swarm::seen_subject(&first), b"a\x1fw1\x1f0");
    }
}
