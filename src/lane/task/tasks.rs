//! The tasks of a lane: what each is doing, and who may touch its state meanwhile.

use std::collections::BTreeMap;

use loopwarden_core::{event::TaskId, policy::Policy};

use crate::task::outcome::{Answer, Ready, RestoreError, Restorer};
use crate::task::state::{Poisoned, Restoring, Running, Task};
use crate::{settings::Clock, task::lease::Leases};

/// A task as the lane holds it.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Another lane of this process has not let go of it yet.
    Waiting,
    /// With the restorer; answers of an older attempt are void.
    Restoring { attempt: u64 },
    /// Processing, unless the lane waits.
    Running(Box<Task<Running>>),
    /// Stopped.
    Poisoned(Task<Poisoned>),
}

/// Every task that the log has assigned.
pub(crate) struct Tasks {
    slots: BTreeMap<TaskId, Slot>,
    leases: Leases,
    restorer: Box<dyn Restorer>,
    attempts: u64,
}

impl Tasks {
    pub(crate) fn new(restorer: Box<dyn Restorer>, leases: Leases) -> Self {
        Self { slots: BTreeMap::new(), leases, restorer, attempts: 0 }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (TaskId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    pub(crate) fn ids(&self) -> Vec<TaskId> {
        self.slots.keys().copied().collect()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (TaskId, &Running)> {
        self.slots.iter().filter_map(|(id, slot)| match slot {
            Slot::Running(task) => Some((*id, &task.state)),
            _ => None,
        })
    }

    pub(crate) fn running_mut(&mut self) -> impl Iterator<Item = (TaskId, &mut Running)> {
        self.slots.iter_mut().filter_map(|(id, slot)| match slot {
            Slot::Running(task) => Some((*id, &mut task.state)),
            _ => None,
        })
    }

    pub(crate) fn running_ids(&self) -> Vec<TaskId> {
        self.running().map(|(id, _)| id).collect()
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&Running> {
        match self.slots.get(&id) {
            Some(Slot::Running(task)) => Some(&task.state),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: TaskId) -> Option<&mut Running> {
        match self.slots.get_mut(&id) {
            Some(Slot::Running(task)) => Some(&mut task.state),
            _ => None,
        }
    }

    /// Whether the state of any is not there yet.
    pub(crate) fn is_restoring(&self) -> bool {
        self.slots.values().any(|slot| matches!(slot, Slot::Waiting | Slot::Restoring { .. }))
    }

    pub(crate) fn is_all_running(&self) -> bool {
        self.slots.values().all(|slot| matches!(slot, Slot::Running(_)))
    }

    /// Puts a policy in force from the next record on.
    pub(crate) fn adopt(&mut self, policy: &Policy) {
        for slot in self.slots.values_mut() {
            if let Slot::Running(task) = slot {
                task.adopt(policy);
            }
        }
    }

    /// A task whose budgets are to be compared with another policy.
    pub(crate) fn compares_budgets(&self) -> Option<TaskId> {
        self.running().find(|(_, task)| task.compares_budgets.is_some()).map(|(id, _)| id)
    }

    /// Takes a task that the log has assigned.
    pub(crate) fn insert(&mut self, id: TaskId) {
        self.slots.insert(id, Slot::Waiting);
        self.restore(id);
    }

    /// A task that waits, and whose former owner in this process has let go of it.
    pub(crate) fn freed(&self) -> Option<TaskId> {
        let mut waiting = self.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Waiting));
        waiting.find(|(id, _)| self.leases.is_free(**id)).map(|(id, _)| *id)
    }

    /// Restores a task as soon as nobody else in the process owns it.
    pub(crate) fn restore(&mut self, id: TaskId) {
        if let Some(lease) = self.leases.take(id) {
            self.submit(Task::new(id, lease));
        }
    }

    /// A running task's store is no longer known to be right. True where there is such a task: it may have been revoked meanwhile.
    pub(crate) fn restore_again(&mut self, id: TaskId) -> bool {
        match self.slots.remove(&id) {
            Some(Slot::Running(task)) => {
                self.submit(task.restore());
                true
            }
            Some(other) => {
                self.slots.insert(id, other);
                false
            }
            None => false,
        }
    }

    fn submit(&mut self, task: Task<Restoring>) {
        self.attempts += 1;
        self.slots.insert(task.id(), Slot::Restoring { attempt: self.attempts });
        self.restorer.submit(task, self.attempts);
    }

    /// The next restore that ended.
    pub(crate) fn poll(&mut self, clock: &dyn Clock) -> Option<Answer> {
        self.restorer.poll(clock)
    }

    pub(crate) fn needs_turns(&self) -> bool {
        self.restorer.needs_turns()
    }

    pub(crate) fn restore_left(&self) -> [u64; 2] {
        self.restorer.left()
    }

    /// What a restore came to. None where the task was taken away or begun again meanwhile: dropping the answer gives its lease back.
    pub(crate) fn accept(&self, answer: Answer) -> Option<Result<Box<Ready>, RestoreError>> {
        match self.slots.get(&answer.id) {
            Some(Slot::Restoring { attempt }) if *attempt == answer.attempt => Some(answer.result),
            _ => None,
        }
    }

    pub(crate) fn run(&mut self, task: Task<Running>) {
        self.slots.insert(task.id, Slot::Running(Box::new(task)));
    }

    /// Stops a running task until a person has seen to it.
    pub(crate) fn poison(&mut self, id: TaskId, why: String) {
        if let Some(Slot::Running(task)) = self.slots.remove(&id) {
            tracing::error!(task = %id, code = "E0301", why, next = %task.state.next(), "task stopped");
            self.slots.insert(id, Slot::Poisoned(task.poison(why)));
        }
    }

    /// Lets go of a task.
    pub(crate) fn release(&mut self, id: TaskId) {
        match self.slots.remove(&id) {
            Some(Slot::Running(task)) => task.drain().release(),
            Some(Slot::Poisoned(task)) => task.drain().release(),
            Some(Slot::Restoring { .. }) => self.restorer.cancel(id),
            Some(Slot::Waiting) | None => {}
        }
    }
}
