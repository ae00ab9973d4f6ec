//! Assign, revoke, lose (`exactly-once.md` section 7). The log only reports; the lane acts and then answers the log.

use crate::event::TaskId;
use crate::log::Log;
use crate::log::LogError;
use crate::store::StateStore;
use crate::task::Slot;
use crate::task::Task;
use crate::task::lane::Exit;
use crate::task::lane::Lane;
use crate::task::lane::Phase;
use crate::task::restore::RestoreError;
use crate::task::restorer::Answer;
use crate::task::session::Machine;
use crate::task::settings::Clock;
use crate::task::stats::bump;

impl<L: Log, S: StateStore, M: Machine> Lane<L, S, M> {
    /// B2: take them, paused, and restore their state.
    pub(super) fn on_assigned(&mut self, ids: &[TaskId]) -> Result<(), Exit> {
        tracing::info!(tasks = ids.len(), "tasks assigned");
        self.count_rebalance(0, ids);
        self.log.assign(ids).map_err(refused)?;
        for id in ids {
            self.work.tasks.insert(*id, Slot::Waiting);
            self.restore(*id);
        }
        Ok(())
    }

    /// Restores a task as soon as nobody else in the process owns it.
    pub(super) fn restore(&mut self, id: TaskId) {
        if let Some(lease) = self.leases.take(id) {
            self.submit(Task::new(id, lease));
        }
    }

    /// A running task's store is no longer known to be right.
    pub(super) fn restore_again(&mut self, id: TaskId) {
        match self.work.tasks.remove(&id) {
            Some(Slot::Running(task)) => {
                self.work.forget_task(id);
                self.submit(task.restore());
            }
            Some(other) => {
                self.work.tasks.insert(id, other);
            }
            // Revoked meanwhile.
            None => {}
        }
    }

    fn submit(&mut self, task: Task<crate::task::Restoring>) {
        self.attempts += 1;
        self.work.tasks.insert(task.id(), Slot::Restoring { attempt: self.attempts });
        self.restorer.submit(task, self.attempts);
    }

    /// R6: the state is complete; run.
    pub(super) fn on_restored(&mut self, answer: Answer, clock: &dyn Clock) -> Result<(), Exit> {
        let Answer { id, attempt, result } = answer;
        if !matches!(self.work.tasks.get(&id), Some(Slot::Restoring { attempt: current }) if *current == attempt) {
            // Taken away or begun again meanwhile; dropping the answer gives its lease back.
            return Ok(());
        }
        let ready = match result {
            Ok(ready) => ready,
            Err(RestoreError::Store(error)) => return Err(Exit::Store(error)),
            Err(RestoreError::Stop { code, message }) => return Err(Exit::Fatal { code, message }),
        };
        self.stats.restores += 1;
        self.stats.restore_bytes += ready.bytes;
        if let Some((from, to)) = ready.lost {
            tracing::error!(task = %id, code = "E0503", from, to, "input was deleted before it was read");
            self.stats.input_lost += to - from;
        }
        tracing::info!(task = %id, next = %ready.position.next_offset, records = ready.records, bytes = ready.bytes, "task restored");
        let mut task = ready.task.run(ready.position, ready.is_first);
        task.state.adopt_policy(self.work.machine.policy().hash.0);
        self.work.tasks.insert(id, Slot::Running(Box::new(task)));
        self.start(id, clock)
    }

    /// B3: the generation is still valid, so what is done can be committed; then let go.
    pub(super) fn on_revoked(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::info!(tasks = ids.len(), "tasks revoked");
        self.count_rebalance(1, ids);
        // An interrupted record asked for a rewind: then there is nothing to commit.
        if self.work.interrupt.is_none() && !self.work.overlay.is_empty() {
            self.commit(clock)?;
        }
        self.let_go(ids)
    }

    /// B4: a commit would be refused. The data stay on disk: still a prefix of the changelog.
    pub(super) fn on_lost(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::warn!(tasks = ids.len(), "tasks lost");
        self.count_rebalance(2, ids);
        self.work.interrupt = None;
        self.rewind(clock)?;
        self.let_go(ids)
    }

    fn let_go(&mut self, ids: &[TaskId]) -> Result<(), Exit> {
        // What is left of an overlay that was not committed holds changes of these tasks; it must not survive them.
        let is_left =
            ids.iter().any(|id| matches!(self.work.tasks.get(id), Some(Slot::Running(task)) if task.state.is_touched()));
        if is_left {
            self.drop_overlay();
        }
        for id in ids {
            self.release(*id);
        }
        self.log.unassign(ids).map_err(refused)
    }

    fn release(&mut self, id: TaskId) {
        match self.work.tasks.remove(&id) {
            Some(Slot::Running(task)) => task.drain().release(),
            Some(Slot::Poisoned(task)) => task.drain().release(),
            Some(Slot::Restoring { .. }) => self.restorer.cancel(id),
            Some(Slot::Waiting) | None => {}
        }
        self.work.forget_task(id);
        self.work.marks.remove_task(id);
        if let Phase::Reopening { restore, .. } = &mut self.phase {
            restore.remove(&id);
        }
    }

    pub(super) fn release_all(&mut self) {
        let ids: Vec<TaskId> = self.work.tasks.keys().copied().collect();
        for id in ids {
            self.release(id);
        }
    }

    fn count_rebalance(&mut self, kind: usize, ids: &[TaskId]) {
        bump(&mut self.stats.rebalances, kind);
        if let Some(moved) = self.stats.tasks_moved.get_mut(kind) {
            *moved += ids.len() as u64;
        }
    }
}

/// The client refused an answer about the assignment: it and the lane no longer agree on who owns what.
fn refused(error: LogError) -> Exit {
    match error {
        LogError::Transient(cause) => Exit::Failed(format!("assignment refused: {cause}")),
        LogError::Lost(cause) => Exit::Fenced(cause),
        LogError::Fatal { code, message } => Exit::Fatal { code, message },
    }
}
