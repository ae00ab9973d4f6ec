//! Partitions that are ahead wait for the slowest, where a task of the swarm stage keeps too much for its sake (rule W5).
//!
//! Tasks of the swarm stage hear of every source; so the lanes of a process that read events learn from its lane that reads sums how far
//! the slowest of the whole fleet is.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::event::TaskId;

/// Up to when records may be read, as the lanes of a process know it; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// Of each lane; `None`: as far as one likes. Times of recording, Unix milliseconds.
    limits: Arc<Mutex<Vec<Option<i64>>>>,
}

impl Pace {
    /// For the lanes of a process.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<i64>>> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more lane.
    pub(crate) fn join(&self) -> usize {
        let mut limits = self.lock();
        limits.push(None);
        limits.len() - 1
    }

    pub(crate) fn set(&self, lane: usize, limit: Option<i64>) {
        if let Some(of_lane) = self.lock().get_mut(lane) {
            *of_lane = limit;
        }
    }

    pub(crate) fn limit(&self) -> Option<i64> {
        self.lock().iter().flatten().min().copied()
    }
}

/// A lane's part in it.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pub(crate) pace: Pace,
    pub(crate) lane: usize,
    /// Tasks that are not read.
    pub(crate) held: BTreeSet<TaskId>,
    pub(crate) limit: Option<i64>,
    /// Since when the limit has been what it is, monotonic ms.
    pub(crate) since_ms: u64,
}

impl Keeping {
    /// Whether a task is not read for the sake of a slower one.
    pub(crate) fn is_held(&self, id: TaskId) -> bool {
        self.held.contains(&id)
    }

    /// A task is read again.
    pub(crate) fn is_read(&mut self, id: TaskId) {
        self.held.remove(&id);
    }
}
