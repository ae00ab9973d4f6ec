//! Dead letters of senders: each has a share that holds its records, as of now and as of the last commit.

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::limits::LETTERS_WHOLE_PER_MINUTE;
use loopwarden_state::{Change, StateStore, StoreError, TenantMinute};

use crate::poison::Sender;

/// What a task has copied of its senders' records.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// `None` = to be read, where it is needed.
    now: Option<TenantMinute>,
    committed: Option<TenantMinute>,
}

impl Letters {
    /// Counts a dead letter; false where its sender has had its share of those that hold their records.
    pub(super) fn is_whole(
        &mut self,
        sender: Sender,
        recorded: EventTime,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<bool, StoreError> {
        if self.now.is_none() {
            let stored = store.get(task, &TenantMinute::letters_key())?;
            self.committed = Some(stored.map_or(Ok(TenantMinute::default()), |bytes| TenantMinute::decode(&bytes))?);
            self.now.clone_from(&self.committed);
        }
        Ok(self.now.get_or_insert_default().admits(recorded, &sender.name(), LETTERS_WHOLE_PER_MINUTE))
    }

    /// Gives away what changed since the last commit.
    pub(super) fn changes(&self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        if let Some(now) = &self.now
            && self.now != self.committed
        {
            out.push(Change { task, key: TenantMinute::letters_key(), value: Some(now.encode()?) });
        }
        Ok(())
    }

    pub(super) fn committed(&mut self) {
        if self.committed != self.now {
            self.committed.clone_from(&self.now);
        }
    }

    pub(super) fn rewind(&mut self) {
        self.now.clone_from(&self.committed);
    }
}
