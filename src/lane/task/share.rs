//! What tenants, or senders, have had of their share within a minute: as of now, and as of the last commit.

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::{Change, StateKey, StateStore, StoreError, TenantMinute};

/// What a task counts for each name.
#[derive(Debug)]
pub(crate) struct Share {
    key: StateKey,
    /// `None` = to be read, where it is needed.
    now: Option<TenantMinute>,
    committed: Option<TenantMinute>,
}

impl Share {
    /// Events of tenants, in a task of the session stage.
    pub(crate) const fn of_events() -> Self {
        Self { key: TenantMinute::key(), now: None, committed: None }
    }

    /// Dead letters of senders that hold their records.
    pub(crate) fn of_letters() -> Self {
        Self { key: TenantMinute::letters_key(), now: None, committed: None }
    }

    /// Counts what a record of `name` brought; false where it has had its `limit`.
    pub(crate) fn admits(
        &mut self,
        (name, limit): (&str, u32),
        recorded: EventTime,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<bool, StoreError> {
        if self.now.is_none() {
            let stored = store.get(task, &self.key)?;
            self.committed = Some(stored.map_or(Ok(TenantMinute::default()), |bytes| TenantMinute::decode(&bytes))?);
            self.now.clone_from(&self.committed);
        }
        Ok(self.now.get_or_insert_default().admits(recorded, name, limit))
    }

    /// Gives away what changed since the last commit.
    pub(crate) fn changes(&self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        if let Some(now) = &self.now
            && self.now != self.committed
        {
            out.push(Change { task, key: self.key.clone(), value: Some(now.encode()?) });
        }
        Ok(())
    }

    pub(crate) fn committed(&mut self) {
        if self.committed != self.now {
            self.committed.clone_from(&self.now);
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.now.clone_from(&self.committed);
    }
}
