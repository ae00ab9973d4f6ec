//! `replay`: what would have been said to recorded events. The production lanes over files or a range of a topic, virtual time,
//! memory for a store.
//!
//! Each partition has a lane of its own whatever `--lanes` says, and a thread turns several of them: so the cuts of commits, and with
//! them every byte, do not depend on the number of threads.

pub(super) mod found;
pub(super) mod input;
pub(super) mod labels;
pub(super) mod overrides;
mod progress;
pub(super) mod render;
mod watched;
mod witness;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use found::Found;
use input::Source;
use labels::KnownSessions;
use loopwarden_core::engine::SessionEngine;
use loopwarden_core::limits::LANES_MAX;
use loopwarden_core::policy::Policy;
use loopwarden_lab::file::{Collected, REPLAY_PARTITIONS};
use loopwarden_lab::report::compare::Comparison;
use loopwarden_lab::report::stats::{ReplayStats, Retain};
use loopwarden_lab::report::summary::Rejection;
use loopwarden_lane::{
    Breaker, CommitTrigger, Exit, InlineRestorer, Lane, LaneSettings, Leases, ProcessMode, Stats, SystemClock, Turn,
};
use loopwarden_log::Destination;
use loopwarden_state::MemoryStore;
use overrides::overrides;
use progress::Progress;
use watched::{Watch, WatchedLog};
use witness::{LaneStats, RecordingProcessor};

use crate::cli::args::{LogArgs, ReplayArgs, ReplayFormat};
use crate::cli::{range, setup};
use crate::failure::{Failure, Outcome};
use crate::output::{Output, say};
use crate::server::SWARM;
use crate::{exit_code, input_quality, signals};

/// Records between two commits, over all partitions: the cut is a place in the input, never a moment.
const COMMIT_RECORDS: u64 = 16_384;
/// Decoded sessions kept in memory, over all partitions. Bytes.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
/// Pause of a thread none of whose lanes had anything to do.
const IDLE: Duration = Duration::from_micros(200);

type ReplayLane = Lane<WatchedLog, MemoryStore, RecordingProcessor>;

/// Where commands go while a replay runs; what is not asked for is not kept.
type Listener<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Replays files, or a range of a topic.
///
/// # Errors
/// Policy, files, brokers, or [`Failure::answer_is_no`] as `--fail-on` and `--strict` have it.
pub fn run(args: &ReplayArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    render::check(args)?;
    let (settings, keys) = range::split_sets(&args.set);
    let source = Source::of(&args.files, &args.range, settings, log)?;
    let name = args.policy.as_deref().unwrap_or_else(|| source.policy());
    let policy = Arc::new(loopwarden_settings::policy::load_with_overrides(name, &overrides(&keys)?)?);
    let against = args.against.as_deref().map(loopwarden_settings::policy::load).transpose()?.map(Arc::new);
    let known = KnownSessions::read(args.labels.as_ref(), args.outcomes.as_ref())?;
    let only_commands = args.output == ReplayFormat::Ndjson && args.report.is_none() && against.is_none();
    let retain = Arc::new(Retain { only_commands, ..known.retain(against.is_some()) });
    let stop = signals::stop_flag()?;
    let mut out = (args.output == ReplayFormat::Ndjson).then(Output::stdout);
    // Whoever asks for an answer or a page gets it, also when the commands have no reader any more.
    let reads_on = args.fail_on.is_some() || args.strict || args.report.is_some();
    let mut listener = out.as_mut().map(|out| {
        |json: &[u8]| match out.bytes_line(json) {
            Err(error) if reads_on && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    });
    let listener = listener.as_mut().map(|listener| listener as Listener<'_>);
    let found = replay(args, &source, &policy, &retain, &stop, listener)?;
    if let Some(mut out) = out {
        render::ignore_closed_pipe(out.flush().map_err(Failure::from))?;
    }
    render::print_rejected(&found);
    say(render::summary(&found));
    for warning in input_quality::of_input(&found.stats) {
        say(warning);
    }
    let damaged = found.damaged.clone();
    let is_stopped = || stop.load(Ordering::Acquire);
    let mut second = None;
    if let Some(against) = against.filter(|_| !is_stopped()) {
        let other = replay(args, &source, &against, &retain, &stop, None)?;
        // Half of a replay says nothing of what the other policy would have done.
        second = (!is_stopped()).then_some((against, other));
    }
    let Some((against, other)) = second else {
        if args.against.is_some() {
            say("stopped before the second policy was replayed to its end: this is the report of the first alone");
        }
        let report = render::report(args, &policy, &known, found);
        render::ignore_closed_pipe(render::write_report(args, &report))?;
        return damaged.map_or_else(|| render::answer(args, &report), |error| Err(error.into()));
    };
    say(render::summary(&other));
    let comparison = Comparison::of(&other.replay.outcomes, &found.replay.outcomes);
    let now = render::report(args, &policy, &known, found);
    let before = render::report(args, &against, &known, other);
    render::ignore_closed_pipe(render::write_comparison(args, &now, &before, &comparison))?;
    damaged.map_or_else(|| render::answer_to_change(args, &now, &comparison), |error| Err(error.into()))
}

/// Replays the source once, under one policy. `listener` hears each command as soon as no other can come before it.
pub(super) fn replay(
    args: &ReplayArgs,
    source: &Source,
    policy: &Arc<Policy>,
    retain: &Arc<Retain>,
    stop: &Arc<AtomicBool>,
    mut listener: Option<Listener<'_>>,
) -> Result<Found, Failure> {
    let watch = Arc::new(Watch { asked: Arc::clone(stop), ..Watch::default() });
    let threads = threads(args.lanes);
    let (engine, lateness_ms) = (SessionEngine::new(source.app(), Arc::clone(policy)), source.lateness_ms());
    let mut replay = source.open(REPLAY_PARTITIONS, args.strict, true)?;
    let read = replay.read();
    let mut progress = Progress::start(replay.total);
    let logs = std::mem::take(&mut replay.lanes);
    let mut by_thread: Vec<Vec<WatchedLog>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, log) in logs.into_iter().enumerate() {
        if let Some(mine) = by_thread.get_mut(number % threads) {
            mine.push(WatchedLog::new(log, Arc::clone(&watch), LaneStats::new(number, retain), listener.is_some()));
        }
    }
    let mut found = Found {
        rejections: Vec::new(),
        refused: 0,
        skipped: 0,
        stats: Stats::default(),
        replay: ReplayStats::new(retain),
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
            by_thread.into_iter().map(|logs| scope.spawn(|| turn_all(logs, &engine, lateness_ms, &watch))).collect();
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
            let until_ended = loopwarden_log::clock::Deadline::after(progress::EVERY);
            while !until_ended.is_over() && running.iter().any(|thread| !thread.is_finished()) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        progress.clear();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut by_lane = BTreeMap::new();
    for end in ends {
        let (stats, of_lanes) = end.map_err(|_| Failure::new(exit_code::BROKEN, "error: a lane of the replay panicked"))??;
        found.stats.add(&stats);
        by_lane.extend(of_lanes);
    }
    // Bounded parts keep what comes first: the order must not depend on the threads.
    for stats in by_lane.into_values() {
        found.replay.add(stats);
    }
    for line in input::told(&replay) {
        say(line);
    }
    found.damaged = replay.damaged();
    found.is_partial = watch.is_over() || replay.is_cut() || found.damaged.is_some();
    told.and_then(|()| tell(replay.collector.take()))?;
    for letter in &letters {
        let header = |name: &str| String::from_utf8_lossy(letter.output.headers.get(name).unwrap_or_default()).into_owned();
        let reason = [header("dlq.reason"), header("dlq.field")].join(" ").trim().to_owned();
        // A record's place is its offset; a line's the number people count from 1.
        let (file, line) = if args.range.topic.is_some() {
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
    found.elapsed = progress.elapsed();
    Ok(found)
}

fn threads(asked: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if asked == 0 { cores } else { asked.min(LANES_MAX) as usize };
    threads.clamp(1, REPLAY_PARTITIONS as usize)
}

/// Turns the lanes of a thread until all have ended.
fn turn_all(
    logs: Vec<WatchedLog>,
    engine: &SessionEngine,
    lateness_ms: i64,
    watch: &Watch,
) -> Result<(Stats, Vec<(usize, ReplayStats)>), Failure> {
    let partitions = REPLAY_PARTITIONS as usize;
    let settings = Arc::new(LaneSettings {
        mode: ProcessMode::Replay,
        lateness_ms,
        trigger: CommitTrigger::EveryRecords(COMMIT_RECORDS / u64::from(REPLAY_PARTITIONS)),
        cache_bytes_max: CACHE_BYTES / partitions,
        breaker: Breaker::Report,
        swarm: SWARM,
        // The thread has other lanes to turn.
        poll_ms_max: 0,
        ..LaneSettings::default()
    });
    let lane = |log: WatchedLog| -> ReplayLane {
        let store = MemoryStore::new();
        let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
        let engine = RecordingProcessor::new(engine.clone(), log.stats().clone());
        Lane::new(log, store, engine, restorer, Leases::new(), Arc::clone(&settings))
    };
    let mut lanes: Vec<ReplayLane> = logs.into_iter().map(lane).collect();
    let (mut stats, mut of_lanes) = (Stats::default(), Vec::new());
    let clock = SystemClock::start();
    let mut failed = None;
    while !lanes.is_empty() {
        let mut is_idle = true;
        lanes.retain_mut(|lane| match lane.turn(&clock) {
            Turn::Idle => true,
            Turn::Worked => {
                is_idle = false;
                true
            }
            Turn::Ended(exit) => {
                is_idle = false;
                stats.add(&lane.stats());
                of_lanes.push(lane.log().stats().take());
                if !matches!(exit, Exit::Done | Exit::Stopped) {
                    // The other lanes would wait for this one.
                    watch.stop.store(true, Ordering::Release);
                    failed.get_or_insert(Failure::from(exit));
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
