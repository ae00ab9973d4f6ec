//! Counters of the swarm stage, decoded: bounded in bytes, and what a commit has not written yet is pinned.

use std::collections::BTreeSet;

use loopwarden_core::engine::{Pane, SwarmCounter};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::{Change, StateStore, StoreError, swarm};

use crate::memory::pinned::{Pinned, Slot, SlotIndex};

/// Bytes of a brief in a pane.
const BRIEF_BYTES: usize = 160;
/// Bytes of a counter besides its key, names and panes: index, periods.
const OVERHEAD: usize = 512;
/// Bytes of an agent in a pane besides its names.
const AGENT_BYTES: usize = 112;

/// Place of a counter among those held.
pub(crate) type CounterId = SlotIndex;

/// A counter and what the store holds of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) counter: SwarmCounter,
    /// Time under which it stands in the order; `None` = it does not exist yet, or no more.
    pub(crate) seen: Option<EventTime>,
    is_stored: bool,
    /// Sorted.
    stored_panes: Vec<EventTime>,
    touched: BTreeSet<EventTime>,
}

impl Entry {
    fn new(loaded: Option<swarm::LoadedCounter>) -> Self {
        let is_stored = loaded.is_some();
        let (counter, seen) = loaded.map_or((SwarmCounter::default(), None), |loaded| (loaded.counter, Some(loaded.seen)));
        let stored_panes = counter.panes.keys().copied().collect();
        Self { counter, seen, is_stored, stored_panes, touched: BTreeSet::new() }
    }

    fn measure(&self) -> usize {
        let messages: usize = self.counter.board.verdicts.iter().map(|verdict| verdict.message.len() + 256).sum();
        let periods = self.counter.periods.len() * 64;
        OVERHEAD + messages + periods + self.counter.panes.values().map(pane_bytes).sum::<usize>()
    }

    /// The counter is gone.
    pub(crate) fn clear(&mut self) {
        self.counter = SwarmCounter::default();
        self.seen = None;
        self.touched.clear();
    }

    fn committed(&mut self) {
        self.is_stored = self.seen.is_some();
        self.stored_panes.clear();
        self.stored_panes.extend(self.counter.panes.keys());
        self.touched.clear();
    }
}

impl Slot<Entry> {
    fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        let (task, key, panes) = (self.task(), self.key(), &self.counter.panes);
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
}

fn pane_bytes(pane: &Pane) -> usize {
    let briefs = pane.spawned.as_ref().map_or(0, |spawned| spawned.briefs.len() * BRIEF_BYTES);
    64 + briefs + pane.agents.keys().map(|(session, agent)| session.len() + agent.len() + AGENT_BYTES).sum::<usize>()
}

/// The counters of a lane.
#[derive(Debug)]
pub(crate) struct Counters {
    held: Pinned<Entry>,
}

impl Counters {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { held: Pinned::new(bytes_max) }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.held.bytes()
    }

    /// Looks a counter up: held, stored, or a new one.
    pub(crate) fn find(&mut self, task: TaskId, key: &[u8], store: &dyn StateStore) -> Result<CounterId, StoreError> {
        if let Some(at) = self.held.find(task, [key]) {
            return Ok(at);
        }
        let entry = Entry::new(swarm::load(store, task, key)?);
        Ok(self.hold(task, key, entry))
    }

    /// The same for a counter that is to go: its panes are not read.
    pub(crate) fn find_without_panes(
        &mut self,
        task: TaskId,
        key: &[u8],
        store: &dyn StateStore,
    ) -> Result<CounterId, StoreError> {
        if let Some(at) = self.held.find(task, [key]) {
            return Ok(at);
        }
        let (loaded, panes) = swarm::load_head(store, task, key)?.unzip();
        let entry = Entry { stored_panes: panes.unwrap_or_default(), ..Entry::new(loaded) };
        Ok(self.hold(task, key, entry))
    }

    fn hold(&mut self, task: TaskId, key: &[u8], entry: Entry) -> CounterId {
        self.held.make_room(|_| {});
        let bytes = entry.measure();
        self.held.insert(task, key, entry, bytes)
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
        self.held.pin(at);
        let Some(entry) = self.held.get_mut(at) else { return 0 };
        entry.touched.extend(panes);
        let bytes = entry.measure();
        self.held.resize(at, bytes)
    }

    /// Counters of a task that have changed since the last commit, with keys that begin so.
    pub(crate) fn changed(&self, task: TaskId, prefix: &[u8]) -> BTreeSet<Vec<u8>> {
        let is_meant = |entry: &&Slot<Entry>| entry.task() == task && entry.key().starts_with(prefix) && entry.seen.is_some();
        self.held.pinned().filter(is_meant).map(|entry| entry.key().to_vec()).collect()
    }

    /// Whether a counter has changed since the last commit: then the store does not know it.
    pub(crate) fn is_changed(&self, task: TaskId, key: &[u8]) -> bool {
        self.held.is_pinned(task, key)
    }

    /// What a commit is to write.
    pub(crate) fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        self.held.pinned().try_for_each(|entry| entry.changes(out))
    }

    /// What has changed is committed, and may leave again.
    pub(crate) fn committed(&mut self) {
        for at in self.held.unpin() {
            let Some(entry) = self.held.get_mut(at) else { continue };
            entry.committed();
            if !entry.is_stored {
                self.held.remove(at);
            }
        }
        // A lane that looks up no new one must come below its bound too, or it would commit after each record.
        self.held.make_room(|_| {});
    }

    /// It never happened: what has changed is read again.
    pub(crate) fn rewind(&mut self) {
        for at in self.held.unpin() {
            self.held.remove(at);
        }
    }

    /// Forgets every counter of a task that is given away.
    pub(crate) fn remove_task(&mut self, task: TaskId) {
        self.held.remove_of(|of| of == task);
    }
}
