//! A replay that is watched: what went through its logs is counted, and they can be brought to an early end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::engine::Command;
use loopwarden_log::{Destination, Output};

use crate::report::PublishedCommand;
use crate::report::stats::{ReplayStats, Retain};

/// Lines that are no events, kept of each partition with their place and reason. All are counted.
const DEAD_LETTERS_MAX: usize = 1_000;

/// What all lanes of a replay share.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Somebody asked all of it to end.
    pub(crate) asked: Arc<AtomicBool>,
    /// This replay cannot go on, and ends as soon as possible.
    pub(crate) stop: AtomicBool,
    /// Records handed over so far, for the progress line.
    pub(crate) records: AtomicU64,
}

impl Watch {
    /// Whether nothing more is to be read.
    pub(crate) fn is_over(&self) -> bool {
        self.asked.load(Ordering::Acquire) || self.stop.load(Ordering::Acquire)
    }
}

/// The statistics of a lane, which its log and its engine share. One thread turns both.
#[derive(Debug, Clone)]
pub(crate) struct LaneStats {
    /// Number of the lane: statistics are added in its order.
    lane: usize,
    stats: Arc<Mutex<ReplayStats>>,
}

impl LaneStats {
    pub(crate) fn new(lane: usize, retain: &Arc<Retain>) -> Self {
        Self { lane, stats: Arc::new(Mutex::new(ReplayStats::new(retain))) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ReplayStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statistics, with the number of the lane.
    pub(crate) fn take(&self) -> (usize, ReplayStats) {
        (self.lane, std::mem::take(&mut *self.lock()))
    }
}

/// Watches the log of one lane.
#[derive(Debug)]
pub(crate) struct Watcher {
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

impl Watcher {
    /// With `keeps_commands` the commands can be taken from the collector; otherwise only their statistics remain.
    pub(crate) fn new(watch: Arc<Watch>, stats: LaneStats, keeps_commands: bool) -> Self {
        let kept = Kept { commands: keeps_commands, dead_letters_left: DEAD_LETTERS_MAX };
        Self { watch, stats, staged: Staged::default(), kept }
    }

    pub(super) fn is_over(&self) -> bool {
        self.watch.is_over()
    }

    pub(super) fn handed_over(&self, events: u64) {
        self.watch.records.fetch_add(events, Ordering::Relaxed);
    }

    /// Enters a command. Whether its bytes are kept.
    pub(super) fn take_command(&mut self, command: &Command) -> bool {
        self.staged.commands.push(PublishedCommand::of(command));
        self.kept.commands
    }

    /// What the collector keeps of any other output.
    pub(super) fn take(&mut self, mut output: Output) -> Option<Output> {
        match output.destination {
            // A report has no use for rows, and they are as many as the commands.
            Destination::State => return None,
            Destination::DeadLetters { .. } => {
                if self.staged.dead_letters >= self.kept.dead_letters_left {
                    return None;
                }
                // Its headers say why; what it held is in the file.
                output.value = None;
                self.staged.dead_letters += 1;
            }
            _ => {}
        }
        Some(output)
    }

    pub(super) fn discard(&mut self) {
        self.staged = Staged::default();
    }

    pub(super) fn committed(&mut self) {
        let staged = std::mem::take(&mut self.staged);
        self.kept.dead_letters_left -= staged.dead_letters;
        let mut stats = self.stats.lock();
        for command in staged.commands {
            stats.note_command(command);
        }
    }
}
