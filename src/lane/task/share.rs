//! What tenants, or senders, have had of their share within a minute: as of now, and as of the last commit.

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::{Change, StateKey, StateStore, StoreError, TenantMinute};

use crate::memory::uncommitted::{Uncommitted, Versioned};

/// What a task counts for each name.
#[derive(Debug)]
pub(crate) struct Share {
    key: StateKey,
    /// `None` = to be read, where it is needed.
    minute: Versioned<Option<TenantMinute>>,
}

impl Share {
    /// Events of tenants, in a task of the session stage.
    pub(crate) fn of_events() -> Self {
        Self { key: TenantMinute::key(), minute: Versioned::default() }
    }

    /// Dead letters of senders that hold their records.
    pub(crate) fn of_letters() -> Self {
        Self { key: TenantMinute::letters_key(), minute: Versioned::default() }
    }

    /// Counts what a record of `name` brought; false where it has had its `limit`.
    pub(crate) fn admits(
        &mut self,
        (name, limit): (&str, u32),
        recorded: EventTime,
        store: &dyn StateStore,
        task: TaskId,
    ) -> Result<bool, StoreError> {
        if self.minute.is_none() {
            let stored = store.get(task, &self.key)?;
            self.minute = Versioned::new(Some(stored.map_or(Ok(TenantMinute::default()), |bytes| TenantMinute::decode(&bytes))?));
        }
        Ok(self.minute.get_or_insert_default().admits(recorded, name, limit))
    }
}

impl Uncommitted for Share {
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        if let Some(minute) = &*self.minute
            && self.minute.is_changed()
        {
            out.push(Change { task, key: self.key.clone(), value: Some(minute.encode()?) });
        }
        Ok(())
    }

    fn committed(&mut self) {
        self.minute.committed();
    }

    fn rewind(&mut self) {
        self.minute.rewind();
    }
}
