//! A lane's file log, watched: what went through is counted, and it can be brought to an early end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::event::NextOffset;
use crate::event::Record;
use crate::event::RecordOffset;
use crate::event::Stage;
use crate::event::TaskId;
use crate::log::Changelog;
use crate::log::CommitOutcome;
use crate::log::Destination;
use crate::log::Flow;
use crate::log::Log;
use crate::log::LogError;
use crate::log::LogEvent;
use crate::log::Output;
use crate::log::file::FileLog;
use crate::report::EventIndex;

/// What all lanes of a replay share.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// End as soon as possible.
    pub(super) stop: Arc<AtomicBool>,
    /// End at the first dead letter.
    pub(super) is_strict: bool,
    /// Records handed over so far, for the progress line.
    pub(super) records: AtomicU64,
}

/// What one lane has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Distinct sessions, by the hash of their name: a replay of millions of them must fit into memory.
    pub(super) sessions: BTreeSet<u64>,
    /// Events of labelled sessions.
    pub(super) index: EventIndex,
}

/// The log.
pub(super) struct WatchedLog {
    log: FileLog,
    watch: Arc<Watch>,
    seen: Seen,
    last_session: Vec<u8>,
}

impl WatchedLog {
    pub(super) fn new(log: FileLog, watch: Arc<Watch>, index: EventIndex) -> Self {
        Self { log, watch, seen: Seen { sessions: BTreeSet::new(), index }, last_session: Vec::new() }
    }

    /// What it has seen.
    pub(super) const fn seen(&self) -> &Seen {
        &self.seen
    }
}

fn note(seen: &mut Seen, last: &mut Vec<u8>, record: &Record<'_>) {
    let Some(key) = record.meta.key else { return };
    if last != key {
        seen.sessions.insert(hash(key));
        key.clone_into(last);
    }
    if let Some(value) = record.value {
        seen.index.note(key, value);
    }
}

/// FNV-1a, mixed once more: it only counts.
fn hash(bytes: &[u8]) -> u64 {
    let fold = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    (fnv ^ (fnv >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Log for WatchedLog {
    fn swarm_partitions(&self) -> u32 {
        self.log.swarm_partitions()
    }

    fn poll(&mut self, wait: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if self.watch.stop.load(Ordering::Acquire) {
            return Ok(LogEvent::End);
        }
        let Self { log, watch, seen, last_session } = self;
        let mut records = 0;
        let event = log.poll(wait, &mut |task, record| {
            if task.stage == Stage::Session {
                records += 1;
                note(seen, last_session, record);
            }
            handler(task, record)
        });
        watch.records.fetch_add(records, Ordering::Relaxed);
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

    fn stage_from(&mut self, cause: (TaskId, RecordOffset), output: Output) {
        match output.destination {
            // A report has no use for rows, and they are as many as the commands.
            Destination::State => return,
            Destination::DeadLetters { .. } if self.watch.is_strict => self.watch.stop.store(true, Ordering::Release),
            _ => {}
        }
        self.log.stage_from(cause, output);
    }

    fn discard(&mut self) {
        self.log.discard();
    }

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        self.log.commit(offsets)
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        self.log.reopen()
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        self.log.changelog()
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
