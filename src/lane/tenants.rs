//! Events of tenants, where the policy limits them: as of now, and as of the last commit.

use loopwarden_core::event::{Event, EventKind, TaskId};
use loopwarden_core::policy::TenantLimits;
use loopwarden_state::{Change, StateStore, StoreError, TenantMinute};

/// What a task of the session stage counts of tenants.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    /// `None` = to be read, where it is needed.
    now: Option<TenantMinute>,
    committed: Option<TenantMinute>,
}

impl Tenants {
    /// Counts an event; false where its tenant has had its share. A reset is never refused: it lifts blocks.
    pub(super) fn admits(
        &mut self,
        limits: &TenantLimits,
        event: &Event<'_>,
        store: &impl StateStore,
        task: TaskId,
    ) -> Result<bool, StoreError> {
        let tenant = event.tenant.as_deref().unwrap_or_default();
        let Some(limit) = limits.events_per_minute(tenant) else { return Ok(true) };
        if matches!(event.kind, EventKind::Reset(_)) {
            return Ok(true);
        }
        if self.now.is_none() {
            let stored = store.get(task, &TenantMinute::key())?;
            self.committed = Some(stored.map_or(Ok(TenantMinute::default()), |bytes| TenantMinute::decode(&bytes))?);
            self.now.clone_from(&self.committed);
        }
        Ok(self.now.get_or_insert_default().admits(event.record_time, tenant, limit))
    }

    /// Gives away what changed since the last commit.
    pub(super) fn changes(&self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        if let Some(now) = &self.now
            && self.now != self.committed
        {
            out.push(Change { task, key: TenantMinute::key(), value: Some(now.encode()?) });
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
