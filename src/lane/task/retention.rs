//! State of tasks that went elsewhere (rule R7). It stays on disk, since a task that comes back then only reads the tail of its
//! changelog; until it is so old that a restore would not trust it.

use loopwarden_core::event::TaskId;
use loopwarden_state::{Position, StateKey, StateStore, StoreError};

use crate::task::lease::Leases;

/// Taken off `delete.retention.ms`: clocks differ. Milliseconds.
const SLACK_MS: i64 = 3_600_000;

/// Whether deletions that this state has not seen may be gone from its changelog (rule R2): a session that was deleted meanwhile
/// would rise again. Of a time that is still to come nobody knows how long ago it was.
pub(crate) const fn is_too_old(position: &Position, now_ms: i64, delete_retention_ms: i64) -> bool {
    let age_ms = now_ms.saturating_sub(position.at_end_ms);
    age_ms > delete_retention_ms.saturating_sub(SLACK_MS) || age_ms < -SLACK_MS
}

/// Removes the state of tasks that nobody in the process holds and no restore would trust, or that has no Position. Returns which.
///
/// # Errors
/// See [`StoreError`].
pub fn sweep(
    store: &mut dyn StateStore,
    leases: &Leases,
    now_ms: i64,
    delete_retention_ms: i64,
) -> Result<Vec<TaskId>, StoreError> {
    let mut removed = Vec::new();
    for id in store.tasks()? {
        // Held while it is looked at: a lane that gets the task meanwhile waits.
        let Some(lease) = leases.take(id) else { continue };
        let position = store.get(id, &StateKey::position())?.map(|bytes| Position::decode(&bytes)).transpose()?;
        if position.is_none_or(|position| is_too_old(&position, now_ms, delete_retention_ms)) {
            store.wipe(id)?;
            tracing::info!(task = %id, "state of a task that went elsewhere removed: too old to be of use");
            removed.push(id);
        }
        drop(lease);
    }
    Ok(removed)
}
