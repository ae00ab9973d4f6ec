//! How many sessions a task holds, and how many of them a block binds. Kept with the state, so that neither a restart nor a move to
//! another process forgets them.

use loopwarden_core::{engine::EngineCounters, event::TaskId};
use loopwarden_state::{StateStore, StoreError};

use crate::memory::held::Held;

/// Sessions, and those with a live block in force.
pub(crate) type Counts = [u64; 2];

/// The census of a task of the session stage, under the empty key.
pub(crate) type Census = Held<Counts>;

impl Census {
    /// Sessions, and those with a block, as of now.
    pub(crate) fn counts(&mut self, store: &dyn StateStore, task: TaskId) -> Result<Counts, StoreError> {
        Ok(self.get(&[], store, task)?.unwrap_or_default())
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
        let counts = self.get(&[], store, task)?;
        let [sessions, blocked] = counts.unwrap_or_default();
        // State of a time before there was a census has sessions that were never counted.
        let sessions = (sessions + u64::from(counters.session_began)).saturating_sub(u64::from(is_forgotten));
        let blocked = blocked.saturating_add_signed(i64::from(counters.blocked_delta));
        // Nothing is no record: whether a session that is gone was ever seen by a commit depends on where commits fell.
        *counts = Some([sessions, blocked]).filter(|counts| *counts != Counts::default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;
    use loopwarden_state::{MemoryStore, read};

    use super::*;
    use crate::memory::uncommitted::Uncommitted;

    const TASK: TaskId = TaskId { stage: Stage::Session, partition: 0 };

    #[test]
    fn what_was_not_committed_was_not_counted_and_what_was_never_counted_does_not_go_below_nothing() {
        let mut store = MemoryStore::new();
        let mut census = Census::new();
        let began = EngineCounters { session_began: true, blocked_delta: 2, ..EngineCounters::default() };
        census.note(&began, false, &store, TASK).unwrap();
        census.rewind();
        assert_eq!(census.counts(&store, TASK).unwrap(), [0, 0]);
        census.note(&began, false, &store, TASK).unwrap();
        let mut changes = Vec::new();
        census.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        census.committed();
        assert_eq!(Census::new().counts(&store, TASK).unwrap(), [1, 2]);
        let lifted = EngineCounters { blocked_delta: -3, ..EngineCounters::default() };
        for expected in [[0, 0], [0, 0]] {
            census.note(&lifted, true, &store, TASK).unwrap();
            assert_eq!(census.counts(&store, TASK).unwrap(), expected);
        }
        let mut changes = Vec::new();
        census.changes(TASK, &mut changes).unwrap();
        store.commit(changes).unwrap();
        assert_eq!(read::<Counts>(&store, TASK, &[]), Ok(None));
    }
}
