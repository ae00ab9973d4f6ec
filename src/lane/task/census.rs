//! How many sessions a task holds, and how many of them a block binds. Kept with the state, so that neither a restart nor a move to
//! another process forgets them.

use loopwarden_core::{engine::EngineCounters, event::TaskId};
use loopwarden_state::{Change, StateStore, StoreError, swarm};

use crate::memory::uncommitted::{Uncommitted, Versioned};

/// Sessions, and those with a live block in force.
pub(crate) type Counts = [u64; 2];

/// The census of a task of the session stage.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// `None` = to be read.
    counts: Versioned<Option<Counts>>,
}

impl Census {
    /// Counts as of now.
    pub(crate) fn load(&mut self, store: &dyn StateStore, task: TaskId) -> Result<&mut Counts, StoreError> {
        if self.counts.is_none() {
            let stored = store.get(task, &swarm::counts_key())?;
            self.counts = Versioned::new(Some(stored.map_or(Ok(Counts::default()), |bytes| swarm::decode_counts(&bytes))?));
        }
        Ok(self.counts.get_or_insert_default())
    }

    /// What an input of a session did to them.
    pub(crate) fn note(
        &mut self,
        counters: &EngineCounters,
        is_forgotten: bool,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<(), StoreError> {
        // Nearly every input: nothing is read for it.
        if !counters.session_began && !is_forgotten && counters.blocked_delta == 0 {
            return Ok(());
        }
        let [sessions, blocked] = self.load(store, task)?;
        // State of a time before there was a census has sessions that were never counted.
        *sessions = (*sessions + u64::from(counters.session_began)).saturating_sub(u64::from(is_forgotten));
        *blocked = blocked.saturating_add_signed(i64::from(counters.blocked_delta));
        Ok(())
    }
}

impl Uncommitted for Census {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        if let Some(counts) = *self.counts
            && self.counts.is_changed()
        {
            // Nothing is no record: whether a session that is gone was ever seen by a commit depends on where commits fell.
            let value = if counts == Counts::default() { None } else { Some(swarm::encode_counts(&counts)?) };
            out.push(Change { task, key: swarm::counts_key(), value });
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.counts.committed();
    }

    fn rewind(&mut self) {
        self.counts.rewind();
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_state::MemoryStore;

    use super::*;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    #[test]
    fn what_was_not_committed_was_not_counted_and_what_was_never_counted_does_not_go_below_nothing() {
        let mut store = MemoryStore::new();
        let mut census = Census::default();
        let began = EngineCounters { session_began: true, blocked_delta: 2, ..EngineCounters::default() };
        census.note(&began, false, &store, TASK).unwrap();
        census.rewind();
        assert_eq!(census.load(&store, TASK).unwrap(), &[0, 0]);
        census.note(&began, false, &store, TASK).unwrap();
        let mut changes = Vec::new();
        census.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        census.committed();
        assert_eq!(Census::default().load(&store, TASK).unwrap(), &[1, 2]);
        let lifted = EngineCounters { blocked_delta: -3, ..EngineCounters::default() };
        for expected in [[0, 0], [0, 0]] {
            census.note(&lifted, true, &store, TASK).unwrap();
            assert_eq!(census.load(&store, TASK).unwrap(), &expected);
        }
        let mut changes = Vec::new();
        census.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        assert_eq!(store.get(TASK, &swarm::counts_key()).unwrap(), None);
    }
}
