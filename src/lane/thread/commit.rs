//! The commit protocol as the lane sees it (page `commit`): when, in which order, and an arm per outcome.
//!
//! The log decides; the store follows. Whatever is not `Committed` drops the overlay and goes back to the last commit; what nobody
//! knows is not guessed but restored.

use std::collections::BTreeSet;

use loopwarden_core::event::{NextOffset, TaskId};
use loopwarden_log::{CommitOutcome, Destination, Headers, LogError, Output};
use loopwarden_state::{Change, Position, StateKey, StoreError};

use crate::commit::overlay::{Overlay, UncommittedOutput};
use crate::metrics::stats::{CommitStep, Ended, Reopened, Stats, bump, note_us};
use crate::thread::lane::{Lane, Phase};
use crate::{settings::Clock, stage::context::Work, thread::exit::Exit, thread::watermarks::source_watermarks};

/// Failures in a row after which the producer is replaced.
const FAILURES_BEFORE_REOPEN: u32 = 10;
/// Pause between two attempts to replace the producer. Milliseconds.
const REOPEN_AGAIN_MS: u64 = 500;

/// Records that a changed session has in a commit, as a rule: head, a page or two, timers.
const CHANGES_PER_SESSION: usize = 4;

impl Lane {
    /// In how many milliseconds a commit is due; 0 = now; `None` = nothing waits.
    pub(crate) fn commit_due_in(&self, now_ms: u64) -> Option<u64> {
        if self.tasks.running().any(|(_, task)| task.is_unwritten) {
            return Some(0);
        }
        let of_sources = self.sources_due_in(now_ms);
        if self.work.overlay.is_empty() {
            return of_sources;
        }
        if self.work.must_commit() {
            return Some(0);
        }
        // Who commits by the clock takes them along.
        self.pacing.due_in(&self.work.overlay, now_ms).or(of_sources)
    }

    /// Commits everything there is. Ends the lane only where going on makes no sense; any other failure puts it into another phase.
    pub(crate) fn commit(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        if self.phase != Phase::Feeding {
            return Ok(());
        }
        self.note_sources(clock);
        let touched = self.touched();
        if touched.is_empty() {
            // Nothing a Position could say: no record got further.
            self.drop_overlay();
            return Ok(());
        }
        let began_us = clock.mono_us();
        let offsets: Vec<(TaskId, NextOffset)> = touched.clone();
        let mut changes = self.stage(&touched)?;
        let outcome = self.log.commit(&offsets);
        let decided_us = clock.mono_us();
        match outcome {
            CommitOutcome::Committed { changelog_next } => {
                self.finish_positions(&changelog_next, clock.wall_ms());
                if let Some(by_request) = self.stats.reopened.get_mut(Reopened::Request as usize) {
                    *by_request = self.log.producers_replaced();
                }
                if !self.log.commits_state() {
                    self.position_changes(&touched, &mut changes)?;
                    // A failure here is the process's last deed: the log has it, the store has not.
                    self.work.store.commit(changes)?;
                }
                let ended_us = clock.mono_us();
                self.note_commit(decided_us.saturating_sub(began_us), ended_us.saturating_sub(decided_us));
                self.pacing.ended(ended_us.saturating_sub(began_us), ended_us / 1_000);
                self.publish(&touched, clock.wall_ms())?;
                self.set_pace();
                Ok(())
            }
            CommitOutcome::Aborted { cause, reopen } => {
                tracing::warn!(cause, reopen, "transaction aborted; its records are read again");
                bump(&mut self.stats.transactions, Ended::Aborted as usize);
                self.give_up(clock)?;
                let reopen = reopen || self.health.commits.in_row.is_multiple_of(FAILURES_BEFORE_REOPEN);
                let at_ms = clock.mono_ms() + self.health.commits.backoff_ms();
                self.phase = if reopen { Phase::Reopening { at_ms, restore: BTreeSet::new() } } else { Phase::BackingOff(at_ms) };
                Ok(())
            }
            CommitOutcome::Unknown { cause } => {
                tracing::warn!(cause, "nobody knows how the transaction ended; restoring its tasks");
                bump(&mut self.stats.transactions, Ended::Unknown as usize);
                self.unknown = touched.iter().filter_map(|(id, _)| Some((*id, self.wanted(*id)?))).collect();
                self.restore_touched(&touched, clock)
            }
            CommitOutcome::Fenced { cause } => {
                tracing::warn!(cause, "fenced; restoring the tasks of the transaction");
                bump(&mut self.stats.transactions, Ended::Fenced as usize);
                if self.health.commits.is_replaced(clock.mono_ms()) {
                    return Err(Exit::Fenced(cause));
                }
                self.restore_touched(&touched, clock)
            }
        }
    }

    /// The Position that a commit would make true.
    fn wanted(&self, id: TaskId) -> Option<Position> {
        self.tasks.get(id).map(|task| task.now.clone())
    }

    /// Whether a commit would say anything.
    pub(crate) fn has_work(&self) -> bool {
        !self.touched().is_empty()
    }

    fn touched(&self) -> Vec<(TaskId, NextOffset)> {
        self.tasks.running().filter(|(_, task)| task.is_touched()).map(|(id, task)| (id, task.next())).collect()
    }

    /// Whether the log keeps the state of its tasks. Foreign topics have none: the group's offsets say all.
    fn keeps_changelog(&self) -> bool {
        self.work.foreign.is_none() && self.log.keeps_changelog()
    }

    /// S3: outputs in order, then each task's changed keys, its Position last (C3). Returns the changes for the store; empty where the
    /// log itself writes them.
    fn stage(&mut self, touched: &[(TaskId, NextOffset)]) -> Result<Vec<Change>, StoreError> {
        self.stage_outputs()?;
        let keeps_changelog = self.keeps_changelog();
        let Self { log, work, tasks, .. } = self;
        let mut changes = Vec::with_capacity(work.overlay.sessions * CHANGES_PER_SESSION);
        work.cache.changes(keeps_changelog, &mut changes)?;
        work.counters.changes(&mut changes)?;
        let owner = log.owner().to_owned();
        for (id, _) in touched {
            if let Some(task) = tasks.get_mut(*id) {
                task.changes(*id, &mut changes)?;
                owner.clone_into(&mut task.now.owner);
            }
        }
        if !keeps_changelog {
            return Ok(changes);
        }
        let to_log = |task: TaskId, key: &StateKey, value: Option<Vec<u8>>| Output {
            destination: Destination::Changelog(task),
            key: key.to_changelog(),
            value,
            headers: Headers::default(),
            timestamp_ms: tasks.get(task).map_or(0, |task| task.now.watermark.0.max(0)),
        };
        if log.commits_state() {
            for change in changes.drain(..) {
                log.stage(to_log(change.task, &change.key, change.value));
            }
        } else {
            for change in &changes {
                log.stage(to_log(change.task, &change.key, change.value.clone()));
            }
        }
        for (id, _) in touched {
            if let Some(task) = tasks.get(*id) {
                let value = task.now.encode_for_changelog()?;
                log.stage(to_log(*id, &StateKey::position(), Some(value)));
            }
        }
        Ok(changes)
    }

    /// Outputs in order, state rows, and what the swarm stage is to know.
    fn stage_outputs(&mut self) -> Result<(), StoreError> {
        let Self { log, work, tasks, recent, .. } = self;
        let Work { overlay, encoder, .. } = work;
        for (cause, output) in overlay.outputs.drain(..) {
            match output {
                UncommittedOutput::Record(output) => log.stage_from(cause, output),
                UncommittedOutput::Command(command, ordinal) => log.stage_command(cause, &command, &mut |command| {
                    let output = encoder.command(command, cause.0, ordinal);
                    if let (Some(_), Some(json)) = (&recent, &output.value) {
                        overlay.told.push(json);
                    }
                    output
                }),
            }
        }
        for row in std::mem::take(&mut overlay.rows).into_values() {
            log.stage(row);
        }
        for sum in overlay.sums.drain(log.swarm_partitions()) {
            log.stage_sum(sum)?;
        }
        // Behind the sums that they speak of.
        for watermarks in source_watermarks(tasks, log.swarm_partitions())? {
            log.stage(watermarks);
        }
        Ok(())
    }

    fn finish_positions(&mut self, changelog_next: &[(TaskId, u64)], wall_ms: i64) {
        for (id, next) in changelog_next {
            if let Some(task) = self.tasks.get_mut(*id) {
                task.now.changelog_next = *next;
                task.now.at_end_ms = wall_ms;
            }
        }
    }

    fn position_changes(&self, touched: &[(TaskId, NextOffset)], changes: &mut Vec<Change>) -> Result<(), StoreError> {
        for (id, _) in touched {
            if let Some(task) = self.tasks.get(*id) {
                let value = Some(task.now.encode_for_store()?);
                changes.push(Change { task: *id, key: StateKey::position(), value });
            }
        }
        Ok(())
    }

    fn note_commit(&mut self, log_us: u64, store_us: u64) {
        let mut note = |step: CommitStep, us: u64| note_us(&mut self.stats.commit, step as usize, us);
        note(CommitStep::Store, store_us);
        let Some(steps) = self.log.commit_steps() else { return note(CommitStep::Commit, log_us) };
        note(CommitStep::Send, steps.send_us);
        note(CommitStep::Drain, steps.drain_us);
        note(CommitStep::Offsets, steps.offsets_us);
        note(CommitStep::Commit, steps.commit_us);
    }

    /// S8: what happened may be told.
    fn publish(&mut self, touched: &[(TaskId, NextOffset)], wall_ms: i64) -> Result<(), StoreError> {
        bump(&mut self.stats.transactions, Ended::Committed as usize);
        self.health.commits.reset();
        let keeps_changelog = self.keeps_changelog();
        let Self { work, tasks, stats, .. } = self;
        work.cache.committed(keeps_changelog, &mut *work.store)?;
        work.counters.committed();
        for (id, _) in touched {
            if let Some(state) = tasks.get_mut(*id) {
                state.committed();
                if !work.marks.is_empty() {
                    work.marks.committed(*id, state.now.next_offset.0);
                }
            }
        }
        let mut overlay = std::mem::take(&mut work.overlay);
        let told = std::mem::take(&mut overlay.told);
        if let Some(recent) = &self.recent
            && !told.is_empty()
        {
            recent.extend(told);
        }
        stats.add(&overlay.stats);
        if let Some(foreign) = &mut work.foreign {
            foreign.committed(&overlay.foreign);
        }
        tell(&overlay, stats, wall_ms);
        Ok(())
    }

    /// Everything since the last commit never happened.
    pub(crate) fn drop_overlay(&mut self) {
        let work = &mut self.work;
        work.cache.rewind();
        work.counters.rewind();
        work.overlay = Overlay::default();
        self.tasks.running_mut().for_each(|(_, task)| task.rewind());
        self.log.discard();
    }

    /// Drops the overlay and reads again from the last commit: nothing was sent, so no transaction is lost (C1).
    pub(crate) fn rewind(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.drop_overlay();
        // All of them: a task whose first record was handed over and not applied shows no change, and yet it must be read again.
        self.tasks.running_ids().into_iter().try_for_each(|id| self.start(id, clock))
    }

    /// Restores every running task: at once, or where the end of the last transaction is not known, together with its tasks.
    pub(crate) fn restore_all(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.drop_overlay();
        let running = self.tasks.running_ids();
        if let Phase::Reopening { restore, .. } = &mut self.phase {
            restore.extend(running);
            return Ok(());
        }
        for id in running {
            // Paused or not, nothing is fed to a task that restores.
            self.log.pause(id).or_else(|error| self.on_log_error(error, clock))?;
            self.restore_again(id);
        }
        Ok(())
    }

    /// Drops the overlay and stops the flow.
    fn give_up(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        self.drop_overlay();
        if self.health.commits.is_exhausted_by(clock.mono_ms()) {
            return Err(Exit::Failed("no commit for three minutes".to_owned()));
        }
        for id in self.tasks.running_ids() {
            if let Err(error) = self.log.pause(id) {
                self.on_log_error(error, clock)?;
            }
        }
        Ok(())
    }

    fn restore_touched(&mut self, touched: &[(TaskId, NextOffset)], clock: &dyn Clock) -> Result<(), Exit> {
        self.give_up(clock)?;
        let restore = touched.iter().map(|(id, _)| *id).collect();
        self.phase = Phase::Reopening { at_ms: clock.mono_ms(), restore };
        Ok(())
    }

    /// Replaces the producer (C15): when it is there, the old transaction is decided and its epoch fenced; then changelog and group
    /// agree, and restoring makes the store agree.
    pub(crate) fn reopen(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        match self.log.reopen() {
            Ok(()) => {
                bump(&mut self.stats.reopened, Reopened::Outcome as usize);
                let phase = std::mem::replace(&mut self.phase, Phase::Feeding);
                let Phase::Reopening { restore, .. } = phase else { return self.resume(clock) };
                for id in restore {
                    self.restore_again(id);
                }
                self.resume(clock)
            }
            Err(LogError::Transient(cause)) => {
                if let Phase::Reopening { at_ms, .. } = &mut self.phase {
                    *at_ms = clock.mono_ms() + REOPEN_AGAIN_MS;
                }
                self.stands_still(&cause, clock)
            }
            Err(error) => self.on_log_error(error, clock),
        }
    }
}

/// Counts and logs what became visible.
fn tell(overlay: &Overlay, stats: &mut Stats, wall_ms: i64) {
    for sent in &overlay.sent {
        let action = sent.action as usize;
        let delay_ms = wall_ms.saturating_sub(sent.caused_at.0).max(0).unsigned_abs();
        note_us(&mut stats.command_delay, action, delay_ms.saturating_mul(1_000));
        if sent.expires_at.0 <= wall_ms {
            bump(&mut stats.born_expired, action);
        }
    }
    if overlay.audit.is_empty() {
        return;
    }
    // The writer of log lines writes what is said within it in one go.
    let _commit = tracing::info_span!(target: "loopwarden::finding", "commit").entered();
    for audited in &overlay.audit {
        let finding = &audited.finding;
        tracing::info!(
            target: "loopwarden::finding",
            task = %audited.task,
            offset = audited.offset,
            detector = finding.detector.as_str(),
            mode = finding.mode.as_str(),
            count = finding.count,
            threshold = finding.threshold,
            confidence = finding.confidence,
            fresh = finding.is_current,
            "finding"
        );
    }
}
