//! Hot sessions, decoded: one look-up per event, bounded in bytes. What is not committed yet is pinned.
//!
//! What a commit changes is written with it where the log keeps a changelog. Where it keeps none, nobody but this cache reads the store: a
//! session is written when it leaves, and not before. Of one that changes again while the store lacks it, a copy is kept for a rewind.

use std::collections::BTreeSet;

use loopwarden_core::engine::{SEPARATOR, Session, SubjectKey};
use loopwarden_core::event::TaskId;
use loopwarden_state::session::Loaded;
use loopwarden_state::{Change, StateStore, StoreError, StoredRing, session, step};

use crate::memory::pinned::{Pinned, Slot, SlotIndex};
use crate::metrics::stats::{LookUp, bump};

/// Stands between the parts of a session's key.
const SEPARATOR_BYTES: &[u8] = &[SEPARATOR as u8];
/// Steps noted as changed before they are thinned out to those still in the ring.
const CHANGED_MAX: usize = 4_096;
/// Touches after which the size of a session is measured again.
const MEASURE_EVERY: u32 = 256;
/// Bytes of an entry besides its session and its key: subject, index.
const OVERHEAD: usize = 512;

/// Place of a session in the cache.
pub(crate) type EntryId = SlotIndex;

/// A session and what the store holds of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) subject: SubjectKey,
    pub(crate) session: Session,
    /// What the store holds; `None` = nothing.
    stored: Option<StoredRing>,
    /// Pages in the store that hold nothing of the ring any more, unless it has come back to them.
    stale: BTreeSet<u16>,
    /// Sequences to be written.
    changed: Vec<u64>,
    /// It is committed, and the store lacks it.
    is_ahead: bool,
    /// As it was at the last commit, where it has changed since and the store lacks that.
    before: Option<Box<Before>>,
    measured_len: usize,
    touches: u32,
}

/// A session as it was at the last commit.
#[derive(Debug)]
struct Before {
    session: Session,
    stale: BTreeSet<u16>,
    changed: Vec<u64>,
}

impl Entry {
    /// Notes the steps that an input has changed.
    fn note_changed(&mut self) {
        self.changed.append(&mut self.session.changed_steps);
        if self.changed.len() > CHANGED_MAX.max(2 * self.session.history.capacity()) {
            self.thin_out();
        }
    }

    fn thin_out(&mut self) {
        let history = &self.session.history;
        self.changed.sort_unstable();
        self.changed.dedup();
        self.changed.retain(|sequence| history.get(*sequence).is_some());
    }

    /// The session is forgotten: what the store holds of it is stale, and the next event begins anew.
    pub(crate) fn forget(&mut self, history_steps: usize) {
        if let Some(stored) = &self.stored {
            self.stale.extend(stored.pages());
        }
        self.changed.clear();
        self.session = Session::new(history_steps);
    }

    /// It is as the store has it, or will in a moment.
    fn written(&mut self) {
        self.is_ahead = false;
        self.stale.clear();
        self.changed.clear();
        self.stored = self.session.has_begun.then(|| StoredRing::of(&self.session.history));
    }

    fn measure(&mut self) -> usize {
        self.measured_len = self.session.history.len();
        self.touches = 0;
        self.session.bytes() + OVERHEAD
    }
}

impl Slot<Entry> {
    /// It is about to be applied to.
    pub(crate) fn begin(&mut self) {
        if self.is_ahead && !self.is_pinned() {
            let before = Before { session: self.session.clone(), stale: self.stale.clone(), changed: self.changed.clone() };
            self.before = Some(Box::new(before));
        }
    }

    /// What the store lacks: steps, head, tombstones.
    fn changes(&self, out: &mut Vec<Change>) -> Result<(), StoreError> {
        let (task, session_key) = (self.task(), self.key());
        if !self.session.has_begun {
            if let Some(stored) = self.stored {
                let mut pages = stored.pages();
                pages.extend(&self.stale);
                out.extend(pages.into_iter().map(|page| Change { task, key: step::key(session_key, page), value: None }));
                out.push(Change { task, key: session::head_key(session_key), value: None });
            }
            return Ok(());
        }
        if !self.stale.is_empty() {
            let used = StoredRing::of(&self.session.history).pages();
            out.extend(self.stale.difference(&used).map(|page| Change { task, key: step::key(session_key, *page), value: None }));
        }
        let Session { head, history, .. } = &self.session;
        // What lies under other slots, or was of a life before, is stale: nothing of it is moved.
        let stored = self.stored.as_ref().filter(|_| self.stale.is_empty());
        session::changes(task, session_key, head, history, stored, &self.changed, out)
    }
}

/// The cache of a lane.
#[derive(Debug)]
pub(crate) struct Cache {
    held: Pinned<Entry>,
    /// By what they came to.
    pub(crate) look_ups: [u64; LookUp::WORDS.len()],
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { held: Pinned::new(bytes_max), look_ups: [0; LookUp::WORDS.len()] }
    }

    /// Finds a session by its names.
    pub(crate) fn find(&mut self, task: TaskId, tenant: &str, session_id: &str, agent_id: &str) -> Option<EntryId> {
        let names = [tenant.as_bytes(), SEPARATOR_BYTES, session_id.as_bytes(), SEPARATOR_BYTES, agent_id.as_bytes()];
        self.look_up(task, names)
    }

    pub(crate) fn find_key(&mut self, task: TaskId, session_key: &[u8]) -> Option<EntryId> {
        self.look_up(task, [session_key])
    }

    fn look_up<const N: usize>(&mut self, task: TaskId, key: [&[u8]; N]) -> Option<EntryId> {
        let found = self.held.find(task, key);
        bump(&mut self.look_ups, if found.is_some() { LookUp::Hit } else { LookUp::Miss } as usize);
        found
    }

    /// Takes a session: as loaded, or a new one. [`Cache::make_room`] comes first.
    pub(crate) fn insert(
        &mut self,
        task: TaskId,
        subject: SubjectKey,
        session_key: &[u8],
        loaded: Option<Loaded>,
        history_steps: usize,
    ) -> EntryId {
        let (session, stored) = match loaded {
            Some(loaded) => (loaded.session, Some(loaded.stored)),
            None => (Session::new(history_steps), None),
        };
        // A ring of another size has its steps under other slots.
        let resized = stored.filter(|stored| stored.capacity != session.history.capacity());
        let mut entry = Entry {
            subject,
            session,
            stored,
            stale: resized.map(|stored| stored.pages()).unwrap_or_default(),
            changed: Vec::new(),
            is_ahead: false,
            before: None,
            measured_len: 0,
            touches: 0,
        };
        let bytes = entry.measure();
        self.held.insert(task, session_key, entry, bytes)
    }

    pub(crate) fn get_mut(&mut self, id: EntryId) -> Option<&mut Slot<Entry>> {
        self.held.get_mut(id)
    }

    /// Notes that a session was applied to; true for the first time since the last commit. Its bytes are measured exactly when the ring has
    /// grown by a quarter, and once in a while.
    pub(crate) fn touched(&mut self, id: EntryId) -> bool {
        let is_first = self.held.pin(id);
        let Some(entry) = self.held.get_mut(id) else { return false };
        entry.note_changed();
        entry.touches += 1;
        let len = entry.session.history.len();
        if len >= entry.measured_len + entry.measured_len / 4 + 2 || entry.touches >= MEASURE_EVERY {
            let bytes = entry.measure();
            self.held.resize(id, bytes);
        }
        is_first
    }

    /// The sessions that have changed since the last commit, in the order of their first change.
    pub(crate) fn changed(&self) -> impl Iterator<Item = &Slot<Entry>> {
        self.held.pinned()
    }

    /// What a commit is to write. Where the log keeps no changelog, that is only which sessions are gone.
    pub(crate) fn changes(&self, keeps_changelog: bool, out: &mut Vec<Change>) -> Result<(), StoreError> {
        let mut written = self.changed().filter(|entry| keeps_changelog || !entry.session.has_begun);
        written.try_for_each(|entry| entry.changes(out))
    }

    /// What has changed is committed, and may leave again. A session that has no state leaves now.
    pub(crate) fn committed(&mut self, keeps_changelog: bool, store: &mut dyn StateStore) -> Result<(), StoreError> {
        for id in self.held.unpin() {
            let Some(entry) = self.held.get_mut(id) else { continue };
            entry.before = None;
            if !entry.session.has_begun {
                self.held.remove(id);
            } else if keeps_changelog {
                entry.written();
            } else {
                entry.is_ahead = true;
            }
        }
        self.make_room(store)
    }

    /// What sessions were changed to since the last commit never happened.
    pub(crate) fn rewind(&mut self) {
        for id in self.held.unpin() {
            let before = self.held.get_mut(id).and_then(|entry| {
                let Before { session, stale, changed } = *entry.before.take()?;
                (entry.session, entry.stale, entry.changed) = (session, stale, changed);
                Some(entry.measure())
            });
            match before {
                Some(bytes) => _ = self.held.resize(id, bytes),
                // The store has it.
                None => _ = self.held.remove(id),
            }
        }
    }

    /// Forgets every session of a task that is given away.
    pub(crate) fn remove_task(&mut self, task: TaskId) {
        self.held.remove_of(|of| of == task);
    }

    pub(crate) fn clear(&mut self) {
        self.held.remove_of(|_| true);
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.held.bytes()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Lets sessions leave until the rest fits; what the store lacks of them is written. Also after a commit: sessions grow without any
    /// new one coming, and what was dirty until then could not leave.
    pub(crate) fn make_room(&mut self, store: &mut dyn StateStore) -> Result<(), StoreError> {
        let (mut changes, mut failed) = (Vec::new(), None);
        self.held.make_room(|entry| {
            if entry.is_ahead {
                failed = failed.take().or(entry.changes(&mut changes).err());
            }
        });
        failed.map_or(Ok(()), Err)?;
        if changes.is_empty() { Ok(()) } else { store.commit(changes) }
    }

    /// Writes what the store lacks of all sessions that have not changed since the last commit: somebody is about to read it there.
    pub(crate) fn write_back(&mut self, store: &mut dyn StateStore) -> Result<(), StoreError> {
        let mut changes = Vec::new();
        for entry in self.held.iter_mut().filter(|entry| entry.is_ahead && !entry.is_pinned()) {
            entry.changes(&mut changes)?;
            entry.written();
        }
        if changes.is_empty() { Ok(()) } else { store.commit(changes) }
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_state::MemoryStore;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    fn subject(name: &str) -> SubjectKey {
        SubjectKey::Agent { tenant: String::new(), session_id: name.to_owned(), agent_id: "main".to_owned() }
    }

    fn insert(cache: &mut Cache, name: &str) -> EntryId {
        let key = SubjectKey::session_key(None, name, "main");
        cache.make_room(&mut MemoryStore::new()).unwrap();
        cache.insert(TASK, subject(name), key.as_bytes(), None, 8)
    }

    #[test]
    fn a_full_cache_drops_clean_sessions_and_never_dirty_ones() {
        let mut cache = Cache::new(20_000);
        let pinned = insert(&mut cache, "pinned");
        cache.get_mut(pinned).unwrap().session.has_begun = true;
        assert!(cache.touched(pinned) && !cache.touched(pinned));
        for number in 0..1_000 {
            insert(&mut cache, &format!("s{number}"));
        }
        assert!(cache.bytes() < 25_000, "{}", cache.bytes());
        assert!(cache.len() < 100);
        assert!(cache.find(TASK, "", "pinned", "main").is_some());
        assert!(cache.find(TASK, "", "s0", "main").is_none());
        cache.committed(true, &mut MemoryStore::new()).unwrap();
        for number in 0..1_000 {
            insert(&mut cache, &format!("t{number}"));
        }
        assert!(cache.find(TASK, "", "pinned", "main").is_none());
    }

    #[test]
    fn the_same_session_in_another_partition_is_another_session() {
        let mut cache = Cache::new(1 << 20);
        insert(&mut cache, "s");
        assert!(cache.find(TASK, "", "s", "main").is_some());
        assert!(cache.find(TaskId { stage: Stage::Session, partition: 1 }, "", "s", "main").is_none());
        cache.remove_task(TASK);
        assert!(cache.find(TASK, "", "s", "main").is_none());
        assert_eq!(cache.bytes(), 0);
    }
}
