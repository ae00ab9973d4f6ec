//! Sessions whose key lies in another partition once the input has grown: what moves, as changes of the tasks they leave and come to.
//!
//! The values move as they are. A session moves as a whole or not at all, so what has moved is seen by where it lies.

mod growth;

use std::collections::{BTreeMap, BTreeSet};
use std::{collections::btree_map::Entry, ops::ControlFlow};

pub use growth::Growth;
use loopwarden_core::engine::{StopState, SubjectKey, TimerKind};
use loopwarden_core::event::{EventTime, Stage, TaskId, partition_of};

use crate::{Change, KeyFamily, Position, StateKey, StateStore, StoreError, Stored, TimerKey, read, session, step, stop};

/// The partition that a session moves to from `partition`; `None` if it stays there, or never belonged there.
pub fn moves_to(growth: Growth, partition: u32, record_key: &[u8]) -> Option<u32> {
    let to = partition_of(record_key, growth.to);
    (partition_of(record_key, growth.from) == partition && to != partition).then_some(to)
}

/// The sessions of a task behind `after` that move, at most `limit` of them: key, and the partition each moves to.
///
/// # Errors
/// See [`StoreError`].
pub fn moving(
    store: &impl StateStore,
    growth: Growth,
    partition: u32,
    after: &[u8],
    limit: usize,
) -> Result<Vec<(Vec<u8>, u32)>, StoreError> {
    let task = task(partition);
    let mut found = Vec::new();
    store.scan(task, KeyFamily::Head, &[], after, &mut |key, _| {
        if key != after
            && let Some(SubjectKey::Agent { session_id, .. }) = session::subject_of(key)
            && let Some(to) = moves_to(growth, partition, session_id.as_bytes())
        {
            found.push((key.to_vec(), to));
        }
        if found.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

/// Whom operators stop in a task, as far as that moves: key, and the partition each moves to. There are few.
///
/// # Errors
/// See [`StoreError`].
pub fn moving_stops(store: &impl StateStore, growth: Growth, partition: u32) -> Result<Vec<(Vec<u8>, u32)>, StoreError> {
    let mut found = Vec::new();
    store.scan(task(partition), KeyFamily::Stop, &[], &[], &mut |key, _| {
        let to = stop::subject_of(key).and_then(|of| moves_to(growth, partition, of.record_key().as_bytes()));
        found.extend(to.map(|to| (key.to_vec(), to)));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Changes of several sessions that become visible together.
#[derive(Debug, Default)]
pub struct Rekeying {
    changes: Vec<Change>,
    counts: BTreeMap<TaskId, [u64; 2]>,
    arrived: BTreeSet<TaskId>,
    bytes: usize,
}

/// What is held of a session.
struct Held {
    time: EventTime,
    is_blocked: bool,
    records: BTreeMap<StateKey, Vec<u8>>,
}

impl Rekeying {
    /// Bytes of the changes so far.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves a session. Where the other task holds one of the same name, which events written beside their place have led to, the one
    /// with the newer event stays, and nothing of the older.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn add(&mut self, store: &impl StateStore, session_key: &[u8], from: u32, to: u32) -> Result<(), StoreError> {
        let (from, to) = (task(from), task(to));
        let Some(moved) = held(store, from, session_key)? else { return Ok(()) };
        let there = held(store, to, session_key)?;
        for key in moved.records.keys() {
            self.push(from, key.clone(), None);
        }
        self.count(store, from, -1, moved.is_blocked)?;
        let mut gone = BTreeSet::new();
        if let Some(there) = there {
            if there.time > moved.time {
                return Ok(());
            }
            self.count(store, to, -1, there.is_blocked)?;
            gone.extend(there.records.into_keys());
        }
        for key in gone.into_iter().filter(|key| !moved.records.contains_key(key)) {
            self.push(to, key, None);
        }
        for (key, value) in moved.records {
            self.push(to, key, Some(value));
        }
        self.count(store, to, 1, moved.is_blocked)?;
        self.arrived.insert(to);
        Ok(())
    }

    /// Moves what is known of whom an operator stops, with its timer. Of two the one that was spoken of last stays, as of two sessions.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn add_stop(&mut self, store: &impl StateStore, key: &[u8], from: u32, to: u32) -> Result<(), StoreError> {
        let (from, to) = (task(from), task(to));
        let state_key = StateKey::new(KeyFamily::Stop, key.to_vec());
        let held = |task| read::<StopState>(store, task, key);
        let Some(moved) = held(from)? else { return Ok(()) };
        let timer = |due| TimerKey { due, kind: TimerKind::Stop.number(), subject: key }.to_state_key();
        let armed = store.get(from, &timer(moved.due()))?;
        self.push(from, state_key.clone(), None);
        self.push(from, timer(moved.due()), None);
        if let Some(there) = held(to)? {
            if there.time > moved.time {
                return Ok(());
            }
            self.push(to, timer(there.due()), None);
        }
        self.push(to, state_key.clone(), Some(moved.encode()?));
        if armed.is_some() {
            self.push(to, timer(moved.due()), armed);
        }
        self.arrived.insert(to);
        Ok(())
    }

    /// All changes, the Position of a task last.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn finish(mut self, store: &impl StateStore) -> Result<Vec<Change>, StoreError> {
        for (task, counts) in self.counts {
            let key = StateKey::new(<[u64; 2]>::FAMILY, Vec::new());
            self.changes.push(Change { task, key, value: Some(counts.encode()?) });
        }
        for task in self.arrived {
            self.changes.extend(first_position(store, task.partition)?);
        }
        Ok(self.changes)
    }

    fn push(&mut self, task: TaskId, key: StateKey, value: Option<Vec<u8>>) {
        self.bytes += key.bytes.len() + value.as_ref().map_or(0, Vec::len);
        self.changes.push(Change { task, key, value });
    }

    fn count(&mut self, store: &impl StateStore, task: TaskId, by: i64, is_blocked: bool) -> Result<(), StoreError> {
        let [sessions, blocked] = match self.counts.entry(task) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(read(store, task, &[])?.unwrap_or_default()),
        };
        *sessions = sessions.saturating_add_signed(by);
        *blocked = blocked.saturating_add_signed(if is_blocked { by } else { 0 });
        Ok(())
    }
}

/// The Position of a task that a growth has made and that has none yet: it begins with the first record of its partition.
///
/// # Errors
/// See [`StoreError`].
pub fn first_position(store: &impl StateStore, partition: u32) -> Result<Option<Change>, StoreError> {
    let task = task(partition);
    if store.get(task, &StateKey::position())?.is_some() {
        return Ok(None);
    }
    placed(task, &Position { watermark: EventTime(i64::MIN), owner: "growth".to_owned(), ..Position::default() }).map(Some)
}

fn placed(task: TaskId, position: &Position) -> Result<Change, StoreError> {
    Ok(Change { task, key: StateKey::position(), value: Some(position.encode_for_changelog()?) })
}

/// A task's Position.
///
/// # Errors
/// See [`StoreError`].
pub fn position(store: &impl StateStore, task: TaskId) -> Result<Option<Position>, StoreError> {
    store.get(task, &StateKey::position())?.map(|bytes| Position::decode(&bytes)).transpose()
}

const fn task(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

/// Head, timers and pages of a session.
fn held(store: &impl StateStore, task: TaskId, session_key: &[u8]) -> Result<Option<Held>, StoreError> {
    let key = session::head_key(session_key);
    let Some(bytes) = store.get(task, &key)? else { return Ok(None) };
    let (head, _) = session::decode_head(&bytes)?;
    let mut records = BTreeMap::from([(key, bytes)]);
    for kind in TimerKind::OF_SESSION {
        let Some(due) = head.timers.due(kind) else { continue };
        let key = TimerKey { due, kind: kind.number(), subject: session_key }.to_state_key();
        if let Some(value) = store.get(task, &key)? {
            records.insert(key, value);
        }
    }
    let prefix = step::prefix(session_key);
    store.scan(task, KeyFamily::Page, &prefix, &prefix, &mut |key, value| {
        if step::page_in(key, &prefix).is_some() {
            records.insert(StateKey::new(KeyFamily::Page, key.to_vec()), value.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(Some(Held { time: head.time, is_blocked: head.board.verdicts.blocks().next().is_some(), records }))
}

#[cfg(test)]
mod tests {
    use loopwarden_core::{detect::History, engine::Head};

    use super::*;
    use crate::{MemoryStore, StoredRing};

    const GROWTH: Growth = Growth { from: 1, to: 2 };
    const KINDS: [TimerKind; 2] = [TimerKind::Idle, TimerKind::OpenCalls];

    fn key_of(session: &str) -> Vec<u8> {
        SubjectKey::session_key(None, session, "main").as_bytes().to_vec()
    }

    /// A session with two timers and so many pages, whose last event was at that time.
    fn put(store: &mut MemoryStore, partition: u32, session: &str, time: i64, pages: u16) {
        let key = key_of(session);
        let mut head = Head { time: EventTime(time), ..Head::default() };
        let mut changes = Vec::new();
        for (at, kind) in KINDS.into_iter().enumerate() {
            let due = EventTime(time + 1 + at as i64);
            head.timers.set(kind, Some(due));
            let timer = TimerKey { due, kind: kind.number(), subject: &key };
            changes.push(Change { task: task(partition), key: timer.to_state_key(), value: Some(vec![1]) });
        }
        for page in 0..pages {
            changes.push(Change { task: task(partition), key: step::key(&key, page), value: Some(vec![2]) });
        }
        let bytes = session::encode_head(&head, &StoredRing::of(&History::new(8)), std::iter::empty()).unwrap();
        changes.push(Change { task: task(partition), key: session::head_key(&key), value: Some(bytes) });
        let [sessions, blocked] = read(store, task(partition), &[]).unwrap().unwrap_or_default();
        let counts = [sessions + 1, blocked].encode().unwrap();
        changes.push(Change { task: task(partition), key: StateKey::new(KeyFamily::Swarm, Vec::new()), value: Some(counts) });
        store.commit(changes).unwrap();
    }

    /// Records of a session, and how many sessions its task counts.
    fn found(store: &MemoryStore, partition: u32, session: &str) -> (usize, u64) {
        let [sessions, _] = read::<[u64; 2]>(store, task(partition), &[]).unwrap().unwrap();
        let records = held(store, task(partition), &key_of(session)).unwrap().map_or(0, |held| held.records.len());
        (records, sessions)
    }

    fn moved(store: &mut MemoryStore, session: &str) {
        let mut rekeying = Rekeying::default();
        rekeying.add(store, &key_of(session), 0, 1).unwrap();
        assert!(rekeying.bytes() > 0);
        let changes = rekeying.finish(store).unwrap();
        store.commit(changes).unwrap();
    }

    #[test]
    fn a_session_moves_with_timers_and_pages_and_its_neighbour_stays() {
        let mut store = MemoryStore::new();
        // The name of one begins with the name of the other.
        put(&mut store, 0, "s", 100, 3);
        put(&mut store, 0, "s1", 100, 2);
        let position = Position { outputs: 7, ..Position::default() };
        store.commit(vec![placed(task(0), &position).unwrap()]).unwrap();
        moved(&mut store, "s");
        assert_eq!([found(&store, 0, "s"), found(&store, 1, "s"), found(&store, 0, "s1")], [(0, 1), (6, 1), (5, 1)]);
        // What lies in a partition counts from its Position on.
        assert_eq!(super::position(&store, task(1)).unwrap().unwrap().owner, "growth");
        let mut left = Vec::new();
        let families = KeyFamily::ALL.into_iter();
        for family in families {
            let mut take = |key: &[u8], _: &[u8]| {
                left.push((family, key.to_vec()));
                ControlFlow::Continue(())
            };
            store.scan(task(0), family, &[], &[], &mut take).unwrap();
        }
        // The Position, the totals and the neighbour's records.
        assert_eq!(left.len(), 2 + 5, "{left:?}");
    }

    #[test]
    fn of_two_sessions_of_one_name_the_newer_one_stays_and_nothing_of_the_other() {
        for (time_there, expected) in [(50, 6), (150, 3 + 4)] {
            let mut store = MemoryStore::new();
            put(&mut store, 0, "s", 100, 3);
            put(&mut store, 1, "s", time_there, 4);
            moved(&mut store, "s");
            assert_eq!([found(&store, 0, "s"), found(&store, 1, "s")], [(0, 0), (expected, 1)], "{time_there}");
        }
    }

    #[test]
    fn what_moves_is_found_in_parts_and_each_session_once() {
        let mut store = MemoryStore::new();
        for number in 0..40 {
            put(&mut store, 0, &format!("s{number:02}"), 1, 0);
        }
        let whole = moving(&store, GROWTH, 0, &[], 100).unwrap();
        assert!((10..30).contains(&whole.len()), "{}", whole.len());
        let (mut parts, mut after) = (Vec::new(), Vec::new());
        loop {
            let part = moving(&store, GROWTH, 0, &after, 3).unwrap();
            assert!(part.len() <= 3 && parts.len() < 100);
            let Some((last, _)) = part.last() else { break };
            after.clone_from(last);
            parts.extend(part);
        }
        assert_eq!(parts, whole);
        assert!(whole.iter().all(|(_, to)| *to == 1));
    }

    #[test]
    fn a_partition_that_is_new_begins_with_its_first_record_and_one_that_was_there_goes_on() {
        let mut store = MemoryStore::new();
        let change = first_position(&store, 1).unwrap().unwrap();
        store.commit(vec![change]).unwrap();
        assert_eq!(super::position(&store, task(1)).unwrap().unwrap().next_offset.0, 0);
        assert_eq!(first_position(&store, 1).unwrap(), None);
    }
}
