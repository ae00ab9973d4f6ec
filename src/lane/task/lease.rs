//! At most one owner of a task's state in a process (rule R1): with one store for all lanes, a stalled lane that wakes up after it
//! lost a task could otherwise write an old batch over its successor's state.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use loopwarden_core::event::TaskId;

/// Who owns which task; shared by the lanes of a process.
#[derive(Debug, Clone, Default)]
pub struct Leases {
    taken: Arc<Mutex<BTreeSet<TaskId>>>,
}

/// The right to touch a task's state. Given back when dropped.
#[derive(Debug)]
pub struct Lease {
    id: TaskId,
    leases: Leases,
}

impl Leases {
    /// Nobody owns anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// The task's lease; `None` while somebody else holds it.
    pub fn take(&self, id: TaskId) -> Option<Lease> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id).then(|| Lease { id, leases: self.clone() })
    }

    /// Whether nobody holds the task.
    pub fn is_free(&self, id: TaskId) -> bool {
        !self.taken.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::event::Stage;

    use super::*;

    #[test]
    fn a_task_has_one_owner_at_a_time() {
        let leases = Leases::new();
        let id = TaskId { stage: Stage::Session, partition: 3 };
        let first = leases.take(id);
        assert!(first.is_some());
        assert!(leases.take(id).is_none());
        assert!(leases.take(TaskId { stage: Stage::Session, partition: 4 }).is_some());
        drop(first);
        assert!(leases.take(id).is_some());
    }
}
