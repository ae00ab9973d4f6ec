//! Sessions whose key lies in another partition once the input has grown: what moves, as changes of the tasks they leave and come to.
//!
//! The values move as they are. A session moves as a whole or not at all, so what has moved is seen by where it lies.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use loopwarden_core::engine::{SubjectKey, TimerKind};
use loopwarden_core::event::{EventTime, Stage, TaskId, partition_of};

use crate::{Change, Growth, KeyFamily, Position, StateKey, StateStore, StoreError, TimerKey, session, step, swarm};

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

/// Changes of several sessions that become visible together.
#[derive(Debug, Default)]
pub struct Rekeying {
    changes: Vec<Change>,
    counts: BTreeMap<TaskId, [u64; 2]>,
    arrived: BTreeMap<TaskId, u16>,
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
        let codec = position(store, from)?.unwrap_or_default().codec;
        let newest = self.arrived.entry(to).or_default();
        *newest = codec.max(*newest);
        Ok(())
    }

    /// All changes, the Position of a task last.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn finish(mut self, store: &impl StateStore) -> Result<Vec<Change>, StoreError> {
        for (task, counts) in self.counts {
            self.changes.push(Change { task, key: swarm::counts_key(), value: Some(swarm::encode_counts(counts)?) });
        }
        for (task, codec) in self.arrived {
            let before = position(store, task)?;
            if before.as_ref().is_none_or(|position| position.codec < codec) {
                self.changes.push(placed(task, &Position { codec, ..before.unwrap_or_else(first) })?);
            }
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
            Entry::Vacant(unknown) => {
                let stored = store.get(task, &swarm::counts_key())?;
                unknown.insert(stored.map_or(Ok([0, 0]), |bytes| swarm::decode_counts(&bytes))?)
            }
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
    if store.get(task, &StateKey::position())?.is_some() { Ok(None) } else { placed(task, &first()).map(Some) }
}

fn first() -> Position {
    Position { watermark: EventTime(i64::MIN), owner: "growth".to_owned(), ..Position::default() }
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
    Ok(Some(Held { time: head.time, is_blocked: head.verdicts.blocks().next().is_some(), records }))
}
