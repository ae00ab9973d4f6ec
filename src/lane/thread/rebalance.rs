//! Assign, revoke, lose (page `commit`). The log only reports; the lane acts and then answers the log.

use loopwarden_core::event::TaskId;
use loopwarden_log::LogError;
use loopwarden_state::Position;

use crate::metrics::stats::{Rebalance, Resolved, bump, count, note_us, stage_at};
use crate::thread::lane::{Lane, Phase};
use crate::{settings::Clock, task::outcome::Answer, task::outcome::RestoreError, thread::exit::Exit};

impl Lane {
    /// B2: take them, paused, and restore their state.
    pub(crate) fn on_assigned(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        self.rebalancing_since_us.get_or_insert(clock.mono_us());
        tracing::info!(tasks = ids.len(), "tasks assigned");
        self.count_rebalance(Rebalance::Assigned, ids);
        if let Err(error) = self.log.assign(ids) {
            return self.refused(error, clock);
        }
        for id in ids {
            self.tasks.insert(*id);
        }
        Ok(())
    }

    /// R6: the state is complete; run.
    pub(crate) fn on_restored(&mut self, answer: Answer, clock: &dyn Clock) -> Result<(), Exit> {
        let id = answer.id;
        let Some(result) = self.tasks.accept(answer) else { return Ok(()) };
        let ready = match result {
            Ok(ready) => ready,
            Err(RestoreError::Store(error)) => return Err(Exit::Store(error)),
            Err(RestoreError::Stop { code, message }) => return Err(Exit::Fatal { code, message }),
        };
        self.stats.restores += 1;
        count(&mut self.stats.restore_bytes, stage_at(id.stage), ready.bytes);
        note_us(&mut self.stats.restore_time, stage_at(id.stage), ready.took_us);
        self.resolve_unknown(id, &ready.position);
        if let Some((from, to)) = ready.lost {
            tracing::error!(task = %id, code = "E0503", from, to, "input was deleted before it was read");
            self.stats.input_lost += to - from;
        }
        // At the level of a summary there is one line for all of them: `every task is restored`, of the server.
        tracing::debug!(task = %id, next = %ready.position.next_offset, records = ready.records, bytes = ready.bytes,
            range_ms = ready.waited.range_ms, group_ms = ready.waited.group_ms, read_ms = ready.waited.read_ms, "task restored");
        let mut task = ready.task.run(ready.position, ready.is_first);
        task.adopt(self.work.engine.policy());
        self.tasks.run(task);
        if !self.tasks.is_restoring()
            && let Some(since_us) = self.rebalancing_since_us.take()
        {
            self.note_rebalance(Rebalance::Assigned, since_us, clock);
        }
        self.start(id, clock)
    }

    /// The restored Position says how a transaction of unknown outcome ended. All its tasks say the same; the first is counted.
    fn resolve_unknown(&mut self, id: TaskId, position: &Position) {
        let Some(wanted) = self.unknown.remove(&id) else { return };
        let is_committed = (wanted.next_offset, wanted.watermark, wanted.outputs)
            == (position.next_offset, position.watermark, position.outputs);
        let resolved = if is_committed { Resolved::Committed } else { Resolved::Aborted };
        bump(&mut self.stats.unknown_resolved, resolved as usize);
        self.unknown.clear();
        if is_committed {
            // As any other commit: the next failure is the first of its row.
            self.health.commits.reset();
        }
    }

    /// B3: what is not committed is dropped, as of lost tasks. A member that the group had forgotten is asked to let go in the same words
    /// (librdkafka 2.12.1): what it would commit, somebody else has read meanwhile.
    pub(crate) fn on_revoked(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::info!(tasks = ids.len(), "tasks revoked");
        self.give_back(Rebalance::Revoked, ids, clock)
    }

    /// B4: a commit would be refused. The data stay on disk: still a prefix of the changelog.
    pub(crate) fn on_lost(&mut self, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        tracing::warn!(tasks = ids.len(), "tasks lost");
        self.give_back(Rebalance::Lost, ids, clock)
    }

    /// Lets go of tasks. The overlay is one for all of the lane, so that the others are read again from their last commit.
    fn give_back(&mut self, kind: Rebalance, ids: &[TaskId], clock: &dyn Clock) -> Result<(), Exit> {
        self.count_rebalance(kind, ids);
        let since_us = clock.mono_us();
        self.work.interrupt = None;
        self.drop_overlay();
        for id in ids {
            self.release(*id);
        }
        self.log.unassign(ids).or_else(|error| self.refused(error, clock))?;
        self.tasks.running_ids().into_iter().try_for_each(|id| self.start(id, clock))?;
        self.note_rebalance(kind, since_us, clock);
        Ok(())
    }

    /// Gives everything up and joins the group anew, if the log may. Where that is not known yet the log says again that the place is
    /// lost, and this is tried again.
    pub(crate) fn rejoin(&mut self, cause: &str, clock: &dyn Clock) -> Result<(), Exit> {
        let joined = self.log.rejoin(cause);
        if let Err(error @ (LogError::Lost(_) | LogError::Fatal { .. })) = joined {
            return Err(error.into());
        }
        let lost = self.tasks.ids();
        if !lost.is_empty() {
            tracing::warn!(cause, tasks = lost.len(), "the place in the group is lost");
            self.count_rebalance(Rebalance::Lost, &lost);
        }
        self.rebalancing_since_us = None;
        self.work.interrupt = None;
        self.drop_overlay();
        self.release_all();
        match joined {
            Ok(()) => {
                tracing::warn!("joined the group anew");
                Ok(())
            }
            Err(error) => self.on_log_error(error, clock),
        }
    }

    /// The client refused an answer about the assignment: it and the lane no longer agree on who owns what.
    fn refused(&mut self, error: LogError, clock: &dyn Clock) -> Result<(), Exit> {
        match error {
            LogError::Transient(cause) | LogError::OutOfRange(cause) => Err(Exit::Failed(format!("assignment refused: {cause}"))),
            other => self.on_log_error(other, clock),
        }
    }

    /// A running task's store is no longer known to be right: what is held of it is dropped, and it is read back from the log.
    pub(crate) fn restore_again(&mut self, id: TaskId) {
        if self.tasks.restore_again(id) {
            self.work.forget(id);
        }
    }

    fn release(&mut self, id: TaskId) {
        self.tasks.release(id);
        self.work.forget(id);
        self.work.marks.remove_task(id);
        self.unknown.remove(&id);
        if let Phase::Reopening { restore, .. } = &mut self.phase {
            restore.remove(&id);
        }
    }

    pub(crate) fn release_all(&mut self) {
        self.tasks.ids().into_iter().for_each(|id| self.release(id));
    }

    fn note_rebalance(&mut self, kind: Rebalance, since_us: u64, clock: &dyn Clock) {
        note_us(&mut self.stats.rebalance_time, kind as usize, clock.mono_us().saturating_sub(since_us));
    }

    fn count_rebalance(&mut self, kind: Rebalance, ids: &[TaskId]) {
        bump(&mut self.stats.rebalances, kind as usize);
        count(&mut self.stats.tasks_moved, kind as usize, ids.len() as u64);
    }
}
