//! A replay: the production lanes over files or a range of a topic, virtual time, memory for a store.
//!
//! Each partition has a lane of its own whatever the number of threads, and lanes are fed in rounds: so the cuts of commits, and with them
//! every byte, do not depend on threads.

pub(crate) mod exchange;
mod found;
pub(crate) mod stepper;
mod workers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc, time::Duration};

pub use found::Found;
use loopwarden_core::{engine::SessionEngine, policy::Policy};
use loopwarden_lane::{CommitTrigger, Exit, LaneSettings, ProcessMode, Stats};
use loopwarden_log::Output;
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_log::embedded::TICK_HEADER;
pub use workers::{Thread, Workers};

use crate::file::{Collected, Next, Published, REPLAY_PARTITIONS, RecordedInput};
use crate::report::stats::{ReplayStats, Retain};
use crate::{report::PublishedCommand, report::summary::Rejection};

/// Records between two commits, over all partitions: the cut is a place in the input, never a moment.
const COMMIT_RECORDS: u64 = 16_384;
/// Decoded sessions kept in memory, over all partitions. Bytes.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// Where commands go while a replay runs; what is not asked for is not kept.
pub type Listener<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Shows how far a replay is.
pub trait Progress {
    /// Records handed to lanes, and how much of the input is read.
    fn show(&mut self, records: u64, read: u64);
    /// Something else is about to be written.
    fn clear(&mut self);
}

/// How an input is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Name of the application: part of every command id.
    pub app: &'a str,
    pub policy: &'a Arc<Policy>,
    /// How far event times of one partition may lie apart. Milliseconds.
    pub lateness_ms: i64,
    pub threads: usize,
    /// What is kept for the report.
    pub retain: &'a Arc<Retain>,
    /// Ends the replay when it is set.
    pub stop: &'a Arc<AtomicBool>,
    /// Rejected records are named by their place in the topic, lines by their place in a file.
    pub is_topic: bool,
}

/// Why a replay came to no end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Lane(#[from] Exit),
    #[error("a lane of the replay panicked")]
    Panicked,
    /// Commands could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// What was published, as far as it is taken out of the lanes.
struct Collector<'a> {
    stats: ReplayStats,
    /// Dead letters, with their lines.
    letters: Vec<(u64, Output)>,
    listener: Option<Listener<'a>>,
}

impl Collector<'_> {
    fn take(&mut self, settled: Vec<Collected>) -> io::Result<()> {
        for Collected { line, published, .. } in settled {
            match published {
                Published::DeadLetter(letter) => self.letters.push((line, letter)),
                Published::Command(command, record) => {
                    self.stats.note_command(PublishedCommand::of(&command));
                    if let (Some(json), Some(listener)) = (record.and_then(|record| record.value), &mut self.listener) {
                        listener(&json)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Replays an input once, under one policy. `listener` gets each command as soon as no other can come before it.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    input: &RecordedInput,
    plan: &Plan<'_>,
    progress: &mut dyn Progress,
    listener: Option<Listener<'_>>,
) -> Result<Found, ReplayError> {
    let engine = SessionEngine::new(plan.app, Arc::clone(plan.policy));
    let began = Stopwatch::start();
    let logs = input.logs(listener.is_some());
    let mut collector = Collector { stats: ReplayStats::new(plan.retain), letters: Vec::new(), listener };
    let (is_read, ends) = std::thread::scope(|scope| {
        let (mut workers, threads) = Workers::start(scope, logs, plan.threads, &settings(plan.lateness_ms), &engine, plan.retain);
        let is_read = run(input, plan, &mut workers, progress, &mut collector);
        drop(workers);
        (is_read, threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>())
    });
    let is_read = is_read?;
    let (mut stats, mut replay) = (Stats::default(), ReplayStats::new(plan.retain));
    for end in ends {
        // Bounded parts keep what comes first: by the number of the lane, whatever the threads.
        for (of_lane, seen) in end.map_err(|_| ReplayError::Panicked)? {
            stats.add(&of_lane);
            replay.add(seen);
        }
    }
    replay.add(collector.stats);
    let damaged = input.damaged().filter(|_| is_read);
    let (refused, refused_total) = input.refused();
    let mut rejections: Vec<Rejection> =
        collector.letters.iter().map(|(line, letter)| rejection(input, plan, *line, letter)).collect();
    rejections.extend(refused.into_iter().map(|(file, line, reason)| Rejection { file, line, reason }));
    Ok(Found {
        rejections,
        refused: refused_total,
        skipped: input.skipped().1,
        stats,
        replay,
        is_partial: !is_read || input.is_cut() || damaged.is_some(),
        damaged,
        elapsed: began.elapsed(),
    })
}

/// Feeds the lanes the whole input, or as much as comes before somebody asks for the end. Whether that was all.
fn run(
    input: &RecordedInput,
    plan: &Plan<'_>,
    workers: &mut Workers,
    progress: &mut dyn Progress,
    collector: &mut Collector<'_>,
) -> Result<bool, ReplayError> {
    let read = input.progress();
    let (mut records, mut is_read) = (0, false);
    let mut until_shown = Deadline::after(Duration::ZERO);
    while !is_read && !plan.stop.load(Ordering::Acquire) {
        if until_shown.is_over() {
            progress.show(records, read.load(Ordering::Relaxed));
            until_shown = Deadline::after(SHOW_EVERY);
        }
        match input.next(SHOW_EVERY) {
            Next::Round(round) => {
                records += round.records() as u64;
                workers.feed(round)?;
                let settled = workers.settled();
                if !settled.is_empty() {
                    // On a terminal, commands would be written behind the progress line.
                    progress.clear();
                }
                collector.take(settled)?;
            }
            Next::Nothing => {}
            Next::End => is_read = true,
        }
    }
    workers.end(is_read)?;
    progress.clear();
    collector.take(workers.rest())?;
    Ok(is_read)
}

fn rejection(input: &RecordedInput, plan: &Plan<'_>, line: u64, letter: &Output) -> Rejection {
    let header = |name: &str| String::from_utf8_lossy(letter.headers.get(name).unwrap_or_default()).into_owned();
    let reason = [header("dlq.reason"), header("dlq.field")].join(" ").trim().to_owned();
    // A record's place is its offset; a line's the number people count from 1.
    let (file, line) = if plan.is_topic {
        (format!("{}/{}", header("dlq.topic"), header("dlq.partition")), header("dlq.offset").parse().unwrap_or_default())
    } else {
        input.locate(line).map(|(file, line)| (file, line + 1)).unwrap_or_default()
    };
    Rejection { file, line, reason }
}

fn settings(lateness_ms: i64) -> Arc<LaneSettings> {
    Arc::new(LaneSettings {
        mode: ProcessMode::Replay,
        lateness_ms,
        trigger: CommitTrigger::EveryRecords(COMMIT_RECORDS / u64::from(REPLAY_PARTITIONS)),
        cache_bytes_max: CACHE_BYTES / REPLAY_PARTITIONS as usize,
        swarm: true,
        tick_header: Some(TICK_HEADER),
        ..LaneSettings::default()
    })
}
