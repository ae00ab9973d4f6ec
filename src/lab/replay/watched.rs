//! A lane's file log, watched: what went through is counted, and it can be brought to an early end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loopwarden_core::event::{NextOffset, Record, RecordOffset, Stage, TaskId};
use loopwarden_log::{Changelog, CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output};

use super::recording::LaneStats;
use crate::file::FileLog;
use crate::report::PublishedCommand;

/// Lines that are no events, kept of each partition with their place and reason. All are counted.
const DEAD_LETTERS_MAX: usize = 1_000;

/// What all lanes of a replay share.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Somebody asked all of it to end.
    pub(super) asked: Arc<AtomicBool>,
    /// This replay cannot go on, and ends as soon as possible.
    pub(super) stop: AtomicBool,
    /// Records handed over so far, for the progress line.
    pub(super) records: AtomicU64,
}

impl Watch {
    /// Whether nothing more is to be read.
    pub(super) fn is_over(&self) -> bool {
        self.asked.load(Ordering::Acquire) || self.stop.load(Ordering::Acquire)
    }
}

/// The log.
pub(super) struct WatchedLog {
    log: FileLog,
    watch: Arc<Watch>,
    stats: LaneStats,
    staged: Staged,
    kept: Kept,
}

/// Of a transaction, until it is committed.
#[derive(Debug, Default)]
struct Staged {
    commands: Vec<PublishedCommand>,
    dead_letters: usize,
}

/// What may still be handed on.
#[derive(Debug, Clone, Copy)]
struct Kept {
    commands: bool,
    dead_letters_left: usize,
}

impl WatchedLog {
    /// With `keeps_commands` the commands can be taken from the collector; otherwise only their statistics remain.
    pub(super) fn new(log: FileLog, watch: Arc<Watch>, stats: LaneStats, keeps_commands: bool) -> Self {
        let kept = Kept { commands: keeps_commands, dead_letters_left: DEAD_LETTERS_MAX };
        Self { log, watch, stats, staged: Staged::default(), kept }
    }

    pub(super) const fn stats(&self) -> &LaneStats {
        &self.stats
    }
}

impl Log for WatchedLog {
    fn swarm_partitions(&self) -> u32 {
        self.log.swarm_partitions()
    }

    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if self.watch.is_over() {
            return Ok(LogEvent::End);
        }
        let mut records = 0;
        let event = self.log.poll(wait, &mut |task, record| {
            records += u64::from(task.stage == Stage::Session);
            handler(task, record)
        });
        self.watch.records.fetch_add(records, Ordering::Relaxed);
        event
    }

    fn assign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.log.assign(tasks)
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        self.log.start(task, next)
    }

    fn pause(&mut self, task: TaskId) -> Result<(), LogError> {
        self.log.pause(task)
    }

    fn unassign(&mut self, tasks: &[TaskId]) -> Result<(), LogError> {
        self.log.unassign(tasks)
    }

    fn stage(&mut self, output: Output) {
        self.log.stage(output);
    }

    fn stage_from(&mut self, cause: (TaskId, RecordOffset), mut output: Output) {
        match output.destination {
            // A report has no use for rows, and they are as many as the commands.
            Destination::State => return,
            Destination::Commands => {
                self.staged.commands.extend(output.value.as_deref().and_then(PublishedCommand::parse));
                if !self.kept.commands {
                    return;
                }
            }
            Destination::DeadLetters { .. } => {
                if self.staged.dead_letters >= self.kept.dead_letters_left {
                    return;
                }
                // Its headers say why; what it held is in the file.
                output.value = None;
                self.staged.dead_letters += 1;
            }
            _ => {}
        }
        self.log.stage_from(cause, output);
    }

    fn discard(&mut self) {
        self.staged = Staged::default();
        self.log.discard();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let staged = std::mem::take(&mut self.staged);
        let outcome = self.log.commit(offsets);
        if matches!(outcome, CommitOutcome::Committed { .. }) {
            self.kept.dead_letters_left -= staged.dead_letters;
            let mut stats = self.stats.lock();
            for command in staged.commands {
                stats.note_command(command);
            }
        }
        outcome
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        self.log.reopen()
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        self.log.changelog()
    }

    fn keeps_changelog(&self) -> bool {
        self.log.keeps_changelog()
    }

    fn commits_state(&self) -> bool {
        self.log.commits_state()
    }

    fn owner(&self) -> &str {
        self.log.owner()
    }

    fn close(&mut self, leave: bool) -> Result<(), LogError> {
        self.log.close(leave)
    }
}
