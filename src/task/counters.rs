//! Counters of the swarm stage, decoded: bounded in bytes, and what a commit has not written yet is pinned. With them the floors of
//! swarms that changed since the last commit.
//!
//! Which counter leaves is decided by second chance, as for sessions; it reads the same from the store.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::engine::Pane;
use crate::engine::SwarmCounter;
use crate::event::EventTime;
use crate::event::TaskId;
use crate::store::Change;
use crate::store::StateStore;
use crate::store::StoreError;
use crate::store::swarm;
use crate::store::swarm::Floor;

/// Bytes of a counter besides names and panes: keys, index, periods.
const OVERHEAD: usize = 512;
/// Bytes of an agent in a pane besides its names.
const AGENT_BYTES: usize = 112;

/// A counter and what the store holds of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) counter: SwarmCounter,
    /// Time under which it stands in the order; `None` = it does not exist yet, or no more.
    pub(super) seen: Option<EventTime>,
    is_stored: bool,
    stored_panes: BTreeSet<EventTime>,
    touched: BTreeSet<EventTime>,
    is_dirty: bool,
    is_referenced: bool,
    bytes: usize,
}

impl Entry {
    fn new(loaded: Option<swarm::LoadedCounter>) -> Self {
        let is_stored = loaded.is_some();
        let (counter, seen) = loaded.map_or((SwarmCounter::default(), None), |loaded| (loaded.counter, Some(loaded.seen)));
        let stored_panes = counter.panes.keys().copied().collect();
        let mut entry = Self {
            counter,
            seen,
            is_stored,
            stored_panes,
            touched: BTreeSet::new(),
            is_dirty: false,
            is_referenced: true,
            bytes: 0,
        };
        entry.bytes = entry.measure();
        entry
    }

    fn measure(&self) -> usize {
        let messages: usize = self.counter.verdicts.iter().map(|verdict| verdict.message.len() + 256).sum();
        let periods = self.counter.periods.len() * 64;
        OVERHEAD + messages + periods + self.counter.panes.values().map(pane_bytes).sum::<usize>()
    }

    /// The counter is gone.
    pub(super) fn clear(&mut self) {
        self.counter = SwarmCounter::default();
        self.seen = None;
        self.touched.clear();
    }

    fn changes(&self, task: TaskId, key: &[u8], out: &mut Vec<Change>) -> Result<(), StoreError> {
        let panes = &self.counter.panes;
        for (start, pane) in self.touched.iter().filter_map(|start| panes.get_key_value(start)) {
            out.push(Change { task, key: swarm::pane_key(key, *start), value: Some(swarm::encode_pane(*start, pane)?) });
        }
        for start in self.stored_panes.iter().filter(|start| !panes.contains_key(start)) {
            out.push(Change { task, key: swarm::pane_key(key, *start), value: None });
        }
        match self.seen {
            Some(seen) => {
                out.push(Change { task, key: swarm::head_key(key), value: Some(swarm::encode_head(&self.counter, seen)?) });
            }
            None if self.is_stored => out.push(Change { task, key: swarm::head_key(key), value: None }),
            None => {}
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.is_stored = self.seen.is_some();
        self.stored_panes = self.counter.panes.keys().copied().collect();
        self.touched.clear();
        self.is_dirty = false;
    }
}

fn pane_bytes(pane: &Pane) -> usize {
    64 + pane.agents.keys().map(|(session, agent)| session.len() + agent.len() + AGENT_BYTES).sum::<usize>()
}

/// The counters of a lane.
#[derive(Debug)]
pub(super) struct Counters {
    entries: BTreeMap<(TaskId, Vec<u8>), Box<Entry>>,
    dirty: Vec<(TaskId, Vec<u8>)>,
    floors: BTreeMap<(TaskId, Vec<u8>), Option<Floor>>,
    hand: Option<(TaskId, Vec<u8>)>,
    bytes: usize,
    bytes_max: usize,
}

impl Counters {
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self { entries: BTreeMap::new(), dirty: Vec::new(), floors: BTreeMap::new(), hand: None, bytes: 0, bytes_max }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A counter: held, stored, or a new one.
    pub(super) fn get(&mut self, id: &(TaskId, Vec<u8>), store: &impl StateStore) -> Result<&mut Entry, StoreError> {
        if !self.entries.contains_key(id) {
            let entry = Box::new(Entry::new(swarm::load(store, id.0, &id.1)?));
            self.make_room();
            self.bytes += entry.bytes;
            self.entries.insert(id.clone(), entry);
        }
        let entry =
            self.entries.get_mut(id).ok_or_else(|| StoreError::Corrupt("a counter that was just inserted is gone".to_owned()))?;
        entry.is_referenced = true;
        Ok(entry)
    }

    /// Notes that a counter was applied to: these panes are to be written again. Returns the bytes it grew by.
    pub(super) fn touched(&mut self, id: &(TaskId, Vec<u8>), panes: impl IntoIterator<Item = EventTime>) -> usize {
        let Some(entry) = self.entries.get_mut(id) else { return 0 };
        entry.touched.extend(panes);
        if !std::mem::replace(&mut entry.is_dirty, true) {
            self.dirty.push(id.clone());
        }
        let (before, now) = (entry.bytes, entry.measure());
        entry.bytes = now;
        self.bytes = self.bytes - before + now;
        now.saturating_sub(before)
    }

    /// Counters of a task that are held changed, with keys that begin so, from a key on.
    pub(super) fn dirty_from(&self, task: TaskId, prefix: &[u8], from: &[u8]) -> BTreeSet<Vec<u8>> {
        let from = (task, from.max(prefix).to_vec());
        let range = self.entries.range((Bound::Included(from), Bound::Unbounded));
        let mine = range.take_while(|((of, key), _)| *of == task && key.starts_with(prefix));
        mine.filter(|(_, entry)| entry.is_dirty && entry.seen.is_some()).map(|((_, key), _)| key.clone()).collect()
    }

    /// Whether a counter is held changed: then the store does not know it.
    pub(super) fn is_dirty(&self, id: &(TaskId, Vec<u8>)) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.is_dirty)
    }

    /// What a swarm remembers of its last reset.
    pub(super) fn floor(&self, id: &(TaskId, Vec<u8>), store: &impl StateStore) -> Result<Option<Floor>, StoreError> {
        if let Some(floor) = self.floors.get(id) {
            return Ok(*floor);
        }
        store.get(id.0, &swarm::floor_key(&id.1))?.map(|bytes| swarm::decode_floor(&bytes)).transpose()
    }

    pub(super) fn set_floor(&mut self, id: &(TaskId, Vec<u8>), floor: Option<Floor>) {
        self.floors.insert(id.clone(), floor);
    }

    /// What the store lacks.
    pub(super) fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for id in &self.dirty {
            if let Some(entry) = self.entries.get(id) {
                entry.changes(id.0, &id.1, out)?;
            }
        }
        for ((task, swarm), floor) in &self.floors {
            let value = floor.as_ref().map(swarm::encode_floor).transpose()?;
            out.push(Change { task: *task, key: swarm::floor_key(swarm), value });
        }
        Ok(())
    }

    /// The store has it.
    pub(super) fn committed(&mut self) {
        self.floors.clear();
        for id in std::mem::take(&mut self.dirty) {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.committed();
                if !entry.is_stored {
                    self.remove(&id);
                }
            }
        }
    }

    /// It never happened.
    pub(super) fn discard(&mut self) {
        self.floors.clear();
        for id in std::mem::take(&mut self.dirty) {
            self.remove(&id);
        }
    }

    /// Forgets every counter of a task that is given away.
    pub(super) fn remove_task(&mut self, task: TaskId) {
        let ids: Vec<_> = self.entries.keys().filter(|(of, _)| *of == task).cloned().collect();
        for id in ids {
            self.remove(&id);
        }
        self.dirty.retain(|(of, _)| *of != task);
        self.floors.retain(|(of, _), _| *of != task);
    }

    fn remove(&mut self, id: &(TaskId, Vec<u8>)) {
        if let Some(entry) = self.entries.remove(id) {
            self.bytes -= entry.bytes;
        }
    }

    fn make_room(&mut self) {
        // Twice around: once to take the second chances away, once to evict. What is dirty stays; the next commit frees it.
        let mut left = 2 * self.entries.len();
        while self.bytes > self.bytes_max && left > 0 {
            left -= 1;
            let from = self.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
            let Some((id, entry)) = self.entries.range_mut((from, Bound::Unbounded)).next() else { continue };
            let id = id.clone();
            let is_leaving = !entry.is_dirty && !std::mem::replace(&mut entry.is_referenced, false);
            if is_leaving {
                self.remove(&id);
            }
            self.hand = Some(id);
        }
    }
}
