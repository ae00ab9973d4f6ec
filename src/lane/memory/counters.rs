//! Counters of the swarm stage, decoded: bounded in bytes, and what a commit has not written yet is pinned. With them the floors of
//! swarms that changed since the last commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use loopwarden_core::engine::{Pane, SwarmCounter};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::swarm::Floor;
use loopwarden_state::{Change, StateStore, StoreError, swarm};

use crate::memory::pinned::{Pinned, Slot, SlotIndex};

/// Bytes of a brief in a pane.
const BRIEF_BYTES: usize = 160;
/// Bytes of a counter besides names and panes: keys, index, periods.
const OVERHEAD: usize = 512;
/// Bytes of an agent in a pane besides its names.
const AGENT_BYTES: usize = 112;

/// SlotIndex of a counter among those held.
pub(crate) type CounterId = SlotIndex;

/// A counter and what the store holds of it.
#[derive(Debug)]
pub(crate) struct Entry {
    task: TaskId,
    key: Vec<u8>,
    pub(crate) counter: SwarmCounter,
    /// Time under which it stands in the order; `None` = it does not exist yet, or no more.
    pub(crate) seen: Option<EventTime>,
    is_stored: bool,
    /// Sorted.
    stored_panes: Vec<EventTime>,
    touched: BTreeSet<EventTime>,
}

impl Entry {
    fn new((task, key): (TaskId, Vec<u8>), loaded: Option<swarm::LoadedCounter>) -> Self {
        let is_stored = loaded.is_some();
        let (counter, seen) = loaded.map_or((SwarmCounter::default(), None), |loaded| (loaded.counter, Some(loaded.seen)));
        let stored_panes = counter.panes.keys().copied().collect();
        Self { task, key, counter, seen, is_stored, stored_panes, touched: BTreeSet::new() }
    }

    fn measure(&self) -> usize {
        let messages: usize = self.counter.board.verdicts.iter().map(|verdict| verdict.message.len() + 256).sum();
        let periods = self.counter.periods.len() * 64;
        OVERHEAD + 2 * self.key.len() + messages + periods + self.counter.panes.values().map(pane_bytes).sum::<usize>()
    }

    /// The counter is gone.
    pub(crate) fn clear(&mut self) {
        self.counter = SwarmCounter::default();
        self.seen = None;
        self.touched.clear();
    }

    fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        let (task, key, panes) = (self.task, &self.key[..], &self.counter.panes);
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
        self.stored_panes.clear();
        self.stored_panes.extend(self.counter.panes.keys());
        self.touched.clear();
    }
}

fn pane_bytes(pane: &Pane) -> usize {
    let briefs = pane.spawned.as_ref().map_or(0, |spawned| spawned.briefs.len() * BRIEF_BYTES);
    64 + briefs + pane.agents.keys().map(|(session, agent)| session.len() + agent.len() + AGENT_BYTES).sum::<usize>()
}

/// The counters of a lane.
#[derive(Debug)]
pub(crate) struct Counters {
    index: BTreeMap<(TaskId, Vec<u8>), CounterId>,
    held: Pinned<Entry>,
    /// In the order of their first change.
    dirty: Vec<CounterId>,
    floors: BTreeMap<(TaskId, Vec<u8>), Option<Floor>>,
}

impl Counters {
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self { index: BTreeMap::new(), held: Pinned::new(bytes_max), dirty: Vec::new(), floors: BTreeMap::new() }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Looks a counter up: held, stored, or a new one.
    pub(crate) fn find(&mut self, id: &(TaskId, Vec<u8>), store: &dyn StateStore) -> Result<CounterId, StoreError> {
        if let Some(at) = self.index.get(id) {
            return Ok(*at);
        }
        let loaded = swarm::load(store, id.0, &id.1)?;
        Ok(self.hold(Entry::new(id.clone(), loaded)))
    }

    /// The same for a counter that is to go: its panes are not read.
    pub(crate) fn find_without_panes(&mut self, id: &(TaskId, Vec<u8>), store: &dyn StateStore) -> Result<CounterId, StoreError> {
        if let Some(at) = self.index.get(id) {
            return Ok(*at);
        }
        let (loaded, panes) = swarm::load_head(store, id.0, &id.1)?.unzip();
        Ok(self.hold(Entry { stored_panes: panes.unwrap_or_default(), ..Entry::new(id.clone(), loaded) }))
    }

    fn hold(&mut self, entry: Entry) -> CounterId {
        self.make_room();
        let (id, bytes) = ((entry.task, entry.key.clone()), entry.measure());
        let at = self.held.insert(entry, bytes);
        self.index.insert(id, at);
        at
    }

    /// The counter looked up last.
    pub(crate) fn get(&mut self, at: CounterId) -> Result<&mut Entry, StoreError> {
        let entry = self.held.get_mut(at);
        let entry = entry.ok_or_else(|| StoreError::Corrupt("a counter that was just looked up is gone".to_owned()))?;
        entry.refer();
        Ok(entry)
    }

    /// Notes that a counter was applied to: these panes are to be written again. Returns the bytes it grew by.
    pub(crate) fn touched(&mut self, at: CounterId, panes: impl IntoIterator<Item = EventTime>) -> usize {
        let Some(entry) = self.held.get_mut(at) else { return 0 };
        entry.touched.extend(panes);
        if entry.pin() {
            self.dirty.push(at);
        }
        let bytes = entry.measure();
        self.held.resize(at, bytes)
    }

    /// Counters of a task that are held changed, with keys that begin so, from a key on.
    pub(crate) fn dirty_from(&self, task: TaskId, prefix: &[u8], from: &[u8]) -> BTreeSet<Vec<u8>> {
        let from = (task, from.max(prefix).to_vec());
        let range = self.index.range((Bound::Included(from), Bound::Unbounded));
        let mine = range.take_while(|((of, key), _)| *of == task && key.starts_with(prefix));
        let is_changed = |at: CounterId| self.held.get(at).is_some_and(|entry| entry.is_pinned() && entry.seen.is_some());
        mine.filter(|(_, at)| is_changed(**at)).map(|((_, key), _)| key.clone()).collect()
    }

    /// Whether a counter is held changed: then the store does not know it.
    pub(crate) fn is_dirty(&self, id: &(TaskId, Vec<u8>)) -> bool {
        self.index.get(id).and_then(|at| self.held.get(*at)).is_some_and(Slot::is_pinned)
    }

    /// What a swarm remembers of its last reset.
    pub(crate) fn floor(&self, id: &(TaskId, Vec<u8>), store: &dyn StateStore) -> Result<Option<Floor>, StoreError> {
        if let Some(floor) = self.floors.get(id) {
            return Ok(*floor);
        }
        store.get(id.0, &swarm::floor_key(&id.1))?.map(|bytes| swarm::decode_floor(&bytes)).transpose()
    }

    pub(crate) fn set_floor(&mut self, id: &(TaskId, Vec<u8>), floor: Option<Floor>) {
        self.floors.insert(id.clone(), floor);
    }

    /// What the store lacks.
    pub(crate) fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        for entry in self.dirty.iter().filter_map(|at| self.held.get(*at)) {
            entry.changes(out)?;
        }
        for ((task, swarm), floor) in &self.floors {
            let value = floor.as_ref().map(swarm::encode_floor).transpose()?;
            out.push(Change { task: *task, key: swarm::floor_key(swarm), value });
        }
        Ok(())
    }

    /// The store has it.
    pub(crate) fn committed(&mut self) {
        self.floors.clear();
        for at in std::mem::take(&mut self.dirty) {
            let Some(entry) = self.held.get_mut(at) else { continue };
            entry.unpin();
            entry.committed();
            if !entry.is_stored {
                self.remove(at);
            }
        }
        self.held.unpinned();
        // A lane that looks up no new one must come below its bound too, or it would commit after each record.
        self.make_room();
    }

    /// It never happened.
    pub(crate) fn discard(&mut self) {
        self.floors.clear();
        self.held.unpinned();
        for at in std::mem::take(&mut self.dirty) {
            self.remove(at);
        }
    }

    /// Forgets every counter of a task that is given away.
    pub(crate) fn remove_task(&mut self, task: TaskId) {
        for at in self.held.places(|entry| entry.task == task) {
            self.remove(at);
        }
        // No other counter has taken their places yet.
        self.dirty.retain(|at| self.held.get(*at).is_some());
        self.floors.retain(|(of, _), _| *of != task);
    }

    fn remove(&mut self, at: CounterId) {
        if let Some(entry) = self.held.remove(at) {
            self.index.remove(&(entry.task, entry.key));
        }
    }

    fn make_room(&mut self) {
        let Self { index, held, .. } = self;
        held.make_room(|entry| {
            index.remove(&(entry.task, entry.key));
        });
    }
}
