//! A replay: the production lanes over files or a range of a topic, virtual time, memory for a store.
//!
//! Each partition has a lane of its own whatever the number of threads, and a thread turns several of them: so the cuts of commits, and
//! with them every byte, do not depend on threads.

mod found;
mod recording;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use found::Found;
use loopwarden_core::engine::SessionEngine;
use loopwarden_core::policy::Policy;
use loopwarden_lane::{
    Breaker, CommitTrigger, Exit, InlineRestorer, Lane, LaneSettings, Leases, ProcessMode, Stats, SystemClock, Turn,
};
use loopwarden_log::Destination;
use loopwarden_log::clock::{Deadline, Stopwatch};
use loopwarden_state::MemoryStore;
use recording::RecordingProcessor;

use crate::file::{Collected, FileLog, FileReplay, LaneStats, REPLAY_PARTITIONS, Watch, Watcher};
use crate::report::stats::{ReplayStats, Retain};
use crate::report::summary::Rejection;

/// Records between two commits, over all partitions: the cut is a place in the input, never a moment.
const COMMIT_RECORDS: u64 = 16_384;
/// Decoded sessions kept in memory, over all partitions. Bytes.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
/// Pause of a thread none of whose lanes had anything to do.
const IDLE: Duration = Duration::from_micros(200);
/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(500);

type ReplayLane = Lane<FileLog, MemoryStore, RecordingProcessor>;

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
    /// A lane ended.
    #[error(transparent)]
    Lane(#[from] Exit),
    /// A lane panicked.
    #[error("a lane of the replay panicked")]
    Panicked,
    /// Commands could not be written.
    #[error(transparent)]
    Output(#[from] io::Error),
}

/// Replays an input once, under one policy. `listener` hears each command as soon as no other can come before it.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    replay: &mut FileReplay,
    plan: &Plan<'_>,
    progress: &mut dyn Progress,
    mut listener: Option<Listener<'_>>,
) -> Result<Found, ReplayError> {
    let watch = Arc::new(Watch { asked: Arc::clone(plan.stop), ..Watch::default() });
    let threads = plan.threads.clamp(1, REPLAY_PARTITIONS as usize);
    let engine = SessionEngine::new(plan.app, Arc::clone(plan.policy));
    let read = replay.read();
    let began = Stopwatch::start();
    let logs = std::mem::take(&mut replay.lanes);
    let mut by_thread: Vec<Vec<(FileLog, LaneStats)>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, log) in logs.into_iter().enumerate() {
        if let Some(mine) = by_thread.get_mut(number % threads) {
            let stats = LaneStats::new(number, plan.retain);
            let watcher = Watcher::new(Arc::clone(&watch), stats.clone(), listener.is_some());
            mine.push((log.watched_by(watcher), stats));
        }
    }
    let mut found = Found {
        rejections: Vec::new(),
        refused: 0,
        skipped: 0,
        stats: Stats::default(),
        replay: ReplayStats::new(plan.retain),
        is_partial: false,
        damaged: None,
        elapsed: Duration::ZERO,
    };
    let (mut letters, mut told) = (Vec::new(), Ok(()));
    let mut tell = |settled: Vec<Collected>| -> io::Result<()> {
        for collected in settled {
            match (collected.output.destination, &collected.output.value, &mut listener) {
                (Destination::DeadLetters { .. }, ..) => letters.push(collected),
                (Destination::Commands, Some(json), Some(listener)) => listener(json)?,
                _ => {}
            }
        }
        Ok(())
    };
    let ends = std::thread::scope(|scope| {
        let running: Vec<_> =
            by_thread.into_iter().map(|logs| scope.spawn(|| turn_all(logs, &engine, plan.lateness_ms, &watch))).collect();
        while running.iter().any(|thread| !thread.is_finished()) {
            progress.show(watch.records.load(Ordering::Relaxed), read.load(Ordering::Relaxed));
            if told.is_ok() {
                let settled = replay.collector.take_settled();
                if !settled.is_empty() {
                    // On a terminal, commands would be written behind the progress line.
                    progress.clear();
                }
                told = tell(settled);
                if told.is_err() {
                    watch.stop.store(true, Ordering::Release);
                }
            }
            let until_ended = Deadline::after(SHOW_EVERY);
            while !until_ended.is_over() && running.iter().any(|thread| !thread.is_finished()) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        progress.clear();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut by_lane = BTreeMap::new();
    for end in ends {
        let (stats, of_lanes) = end.map_err(|_| ReplayError::Panicked)??;
        found.stats.add(&stats);
        by_lane.extend(of_lanes);
    }
    // Bounded parts keep what comes first: the order must not depend on the threads.
    for stats in by_lane.into_values() {
        found.replay.add(stats);
    }
    found.damaged = replay.damaged();
    found.is_partial = watch.is_over() || replay.is_cut() || found.damaged.is_some();
    told.and_then(|()| tell(replay.collector.take()))?;
    for letter in &letters {
        let header = |name: &str| String::from_utf8_lossy(letter.output.headers.get(name).unwrap_or_default()).into_owned();
        let reason = [header("dlq.reason"), header("dlq.field")].join(" ").trim().to_owned();
        // A record's place is its offset; a line's the number people count from 1.
        let (file, line) = if plan.is_topic {
            (format!("{}/{}", header("dlq.topic"), header("dlq.partition")), header("dlq.offset").parse().unwrap_or_default())
        } else {
            replay.locate(letter.line).map(|(file, line)| (file, line + 1)).unwrap_or_default()
        };
        found.rejections.push(Rejection { file, line, reason });
    }
    let (refused, refused_total) = replay.refused();
    found.refused = refused_total;
    found.skipped = replay.skipped().1;
    found.rejections.extend(refused.into_iter().map(|(file, line, reason)| Rejection { file, line, reason }));
    found.elapsed = began.elapsed();
    Ok(found)
}

/// Turns the lanes of a thread until all have ended.
fn turn_all(
    logs: Vec<(FileLog, LaneStats)>,
    engine: &SessionEngine,
    lateness_ms: i64,
    watch: &Watch,
) -> Result<(Stats, Vec<(usize, ReplayStats)>), ReplayError> {
    let partitions = REPLAY_PARTITIONS as usize;
    let settings = Arc::new(LaneSettings {
        mode: ProcessMode::Replay,
        lateness_ms,
        trigger: CommitTrigger::EveryRecords(COMMIT_RECORDS / u64::from(REPLAY_PARTITIONS)),
        cache_bytes_max: CACHE_BYTES / partitions,
        breaker: Breaker::Report,
        swarm: true,
        // The thread has other lanes to turn.
        poll_ms_max: 0,
        ..LaneSettings::default()
    });
    let lane = |(log, of_lane): (FileLog, LaneStats)| -> (ReplayLane, LaneStats) {
        let store = MemoryStore::new();
        let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
        let engine = RecordingProcessor::new(engine.clone(), of_lane.clone());
        (Lane::new(log, store, engine, restorer, Leases::new(), Arc::clone(&settings)), of_lane)
    };
    let mut lanes: Vec<(ReplayLane, LaneStats)> = logs.into_iter().map(lane).collect();
    let (mut stats, mut of_lanes) = (Stats::default(), Vec::new());
    let clock = SystemClock::start();
    let mut failed = None;
    while !lanes.is_empty() {
        let mut is_idle = true;
        lanes.retain_mut(|(lane, of_lane)| match lane.turn(&clock) {
            Turn::Idle => true,
            Turn::Worked => {
                is_idle = false;
                true
            }
            Turn::Ended(exit) => {
                is_idle = false;
                stats.add(&lane.stats());
                of_lanes.push(of_lane.take());
                if !matches!(exit, Exit::Done | Exit::Stopped) {
                    // The other lanes would wait for this one.
                    watch.stop.store(true, Ordering::Release);
                    failed.get_or_insert(ReplayError::Lane(exit));
                }
                false
            }
        });
        if is_idle {
            std::thread::park_timeout(IDLE);
        }
    }
    failed.map_or(Ok((stats, of_lanes)), Err)
}
