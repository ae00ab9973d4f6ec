//! `replay`: what would have been said to recorded events. The production lanes over files, virtual time, memory for a store.
//!
//! Each partition has a lane of its own whatever `--lanes` says, and a thread turns several of them: so the cuts of commits, and with
//! them every byte, do not depend on the number of threads.

mod progress;
mod watched;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Map;
use serde_json::Value;

use crate::cli::args::FailOn;
use crate::cli::args::LogArgs;
use crate::cli::args::ReplayArgs;
use crate::cli::exit_code;
use crate::cli::failure::Failure;
use crate::cli::failure::Outcome;
use crate::cli::output::Output;
use crate::cli::output::OutputFormat;
use crate::cli::output::say;
use crate::cli::setup;
use crate::cli::setup::SWARM;
use crate::cli::signals;
use crate::config::Diagnostic;
use crate::engine::SessionEngine;
use crate::limits::LANES_MAX;
use crate::log::Destination;
use crate::log::file::Collected;
use crate::log::file::FileInput;
use crate::log::file::FileOptions;
use crate::log::file::FileReplay;
use crate::log::file::REPLAY_PARTITIONS;
use crate::policy::Policy;
use crate::report::Column;
use crate::report::Counts;
use crate::report::EventIndex;
use crate::report::Judgement;
use crate::report::Label;
use crate::report::Said;
use crate::report::Table;
use crate::report::judge;
use crate::report::parse_outcome;
use crate::store::MemoryStore;
use crate::task::Breaker;
use crate::task::CommitTrigger;
use crate::task::Exit;
use crate::task::InlineRestorer;
use crate::task::Lane;
use crate::task::LaneSettings;
use crate::task::Leases;
use crate::task::ProcessMode;
use crate::task::Stats;
use crate::task::SystemClock;
use crate::task::Turn;

use progress::Progress;
use progress::grouped;
use watched::Seen;
use watched::Watch;
use watched::WatchedLog;

/// Records between two commits, over all partitions: the cut is a place in the input, never a moment.
const COMMIT_RECORDS: u64 = 4_096;
/// Decoded sessions kept in memory, over all partitions. Bytes.
const CACHE_BYTES: usize = 256 * 1024 * 1024;
/// Lines that are no event, told on standard error; the rest is counted.
const REJECTED_SHOWN: usize = 20;
/// Bytes of a file of labels or outcomes.
const ROWS_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Pause of a thread none of whose lanes had anything to do.
const IDLE: Duration = Duration::from_micros(200);

type ReplayLane = Lane<WatchedLog, MemoryStore, SessionEngine>;

/// What a replay came to.
struct Found {
    collected: Vec<Collected>,
    /// File, line from 1, reason, field.
    rejected: Vec<(String, u64, String)>,
    stats: Stats,
    sessions: u64,
    index: EventIndex,
    is_partial: bool,
    elapsed: Duration,
}

/// Replays files.
///
/// # Errors
/// Policy, files, or [`Failure::answer_is_no`] as `--fail-on` and `--strict` have it.
pub fn run(args: &ReplayArgs, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let policy = Arc::new(crate::config::policy::load_with_overrides(&args.policy, &overrides(&args.set)?)?);
    let labels = args.labels.as_ref().map(|file| rows(file, Label::parse)).transpose()?;
    let outcomes = args.outcomes.as_ref().map(|file| rows(file, parse_outcome)).transpose()?;
    let found = replay(args, &policy, labels.as_deref().unwrap_or_default())?;
    let said: Vec<Said> = commands(&found).filter_map(Said::parse).collect();
    let mut counts = Counts::default();
    for said in &said {
        counts.note(said);
    }
    let judgement = (labels.is_some() || outcomes.is_some())
        .then(|| judge(&said, labels.as_deref().unwrap_or_default(), &found.index, outcomes.as_deref().unwrap_or_default()));
    tell_rejected(&found);
    let mut out = Output::stdout();
    match args.output {
        OutputFormat::Ndjson => {
            for json in commands(&found) {
                out.text(String::from_utf8_lossy(json))?;
                out.line("")?;
            }
        }
        OutputFormat::Json => out.line(format!("{:#}", to_json(&found, &policy, &counts, judgement.as_ref())))?,
        OutputFormat::Csv => out.table(&counts.table(), OutputFormat::Csv)?,
        OutputFormat::Table => {
            out.text(header(&found, &policy))?;
            out.table(&counts.table(), OutputFormat::Table)?;
            if counts.unblocks() > 0 {
                out.line(format!("{} blocks lifted before they expired", counts.unblocks()))?;
            }
            if let Some(judgement) = &judgement {
                out.text(format!("\n{}", judgement.to_text()))?;
            }
        }
    }
    out.flush()?;
    say(summary(&found));
    for warning in blind_spots(&found.stats) {
        say(warning);
    }
    answer(args, &found, &counts)
}

fn answer(args: &ReplayArgs, found: &Found, counts: &Counts) -> Outcome {
    if args.strict && !found.rejected.is_empty() {
        return Err(Failure::answer_is_no());
    }
    match args.fail_on {
        Some(FailOn::Nudge) if counts.nudges() + counts.blocks() > 0 => Err(Failure::answer_is_no()),
        Some(FailOn::Block) if counts.blocks() > 0 => Err(Failure::answer_is_no()),
        _ => Ok(()),
    }
}

fn replay(args: &ReplayArgs, policy: &Arc<Policy>, labels: &[Label]) -> Result<Found, Failure> {
    let stop = signals::stop_flag()?;
    let watch = Arc::new(Watch { stop: Arc::clone(&stop), is_strict: args.strict, ..Watch::default() });
    let inputs = args.files.iter().map(|file| FileInput::from_argument(&file.to_string_lossy())).collect();
    // In the order of the lines there is one first bad line; several threads would find several.
    let threads = if args.strict { 1 } else { threads(args.lanes) };
    let mut progress = Progress::start(&args.files);
    let options = FileOptions { lanes: REPLAY_PARTITIONS, ..FileOptions::default() };
    let mut replay = FileReplay::open(inputs, &options)?;
    let logs = std::mem::take(&mut replay.lanes);
    let mut by_thread: Vec<Vec<WatchedLog>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, log) in logs.into_iter().enumerate() {
        if let Some(mine) = by_thread.get_mut(number % threads) {
            mine.push(WatchedLog::new(log, Arc::clone(&watch), EventIndex::of(labels)));
        }
    }
    let mut found = Found {
        collected: Vec::new(),
        rejected: Vec::new(),
        stats: Stats::default(),
        sessions: 0,
        index: EventIndex::of(labels),
        is_partial: false,
        elapsed: Duration::ZERO,
    };
    let ends = std::thread::scope(|scope| {
        let running: Vec<_> = by_thread.into_iter().map(|logs| scope.spawn(|| turn_all(logs, policy, &watch))).collect();
        while running.iter().any(|thread| !thread.is_finished()) {
            progress.show(watch.records.load(Ordering::Relaxed));
            let until_ended = crate::clock::Deadline::after(progress::EVERY);
            while !until_ended.is_over() && running.iter().any(|thread| !thread.is_finished()) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        progress.clear();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut sessions = std::collections::BTreeSet::new();
    for end in ends {
        let (stats, seen) = end.map_err(|_| Failure::new(exit_code::BROKEN, "error: a lane of the replay panicked"))??;
        found.stats.add(&stats);
        sessions.extend(seen.sessions);
        found.index.add(seen.index);
    }
    found.sessions = sessions.len() as u64;
    found.is_partial = stop.load(Ordering::Acquire);
    found.collected = replay.collector.take();
    for letter in &found.collected {
        if let Destination::DeadLetters { .. } = letter.output.destination {
            let (file, line) = replay.locate(letter.line).unwrap_or_default();
            let header = |name: &str| {
                let value =
                    letter.output.headers.iter().rev().find(|(header, _)| header == name).map(|(_, value)| value.as_slice());
                String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
            };
            let reason = [header("dlq.reason"), header("dlq.field")].join(" ").trim().to_owned();
            found.rejected.push((file, line + 1, reason));
            if args.strict {
                break;
            }
        }
    }
    found.elapsed = progress.elapsed();
    Ok(found)
}

fn threads(asked: u32) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if asked == 0 { cores } else { asked.min(LANES_MAX) as usize };
    threads.clamp(1, REPLAY_PARTITIONS as usize)
}

/// Turns the lanes of a thread until all have ended.
fn turn_all(logs: Vec<WatchedLog>, policy: &Arc<Policy>, watch: &Watch) -> Result<(Stats, Seen), Failure> {
    let partitions = REPLAY_PARTITIONS as usize;
    let settings = Arc::new(LaneSettings {
        mode: ProcessMode::Replay,
        trigger: CommitTrigger::EveryRecords(COMMIT_RECORDS / u64::from(REPLAY_PARTITIONS)),
        cache_bytes_max: CACHE_BYTES / partitions,
        breaker: Breaker::Report,
        swarm: SWARM,
        // The thread has other lanes to turn.
        poll_ms_max: 0,
        ..LaneSettings::default()
    });
    let lane = |log| -> ReplayLane {
        let store = MemoryStore::new();
        let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
        let engine = SessionEngine::new("loopwarden", Arc::clone(policy));
        Lane::new(log, store, engine, restorer, Leases::new(), Arc::clone(&settings))
    };
    let mut lanes: Vec<ReplayLane> = logs.into_iter().map(lane).collect();
    let (mut stats, mut seen) = (Stats::default(), Seen::default());
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
                seen.sessions.extend(&lane.log().seen().sessions);
                seen.index.add(lane.log().seen().index.clone());
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
    failed.map_or(Ok((stats, seen)), Err)
}

fn commands(found: &Found) -> impl Iterator<Item = &[u8]> {
    found
        .collected
        .iter()
        .filter(|collected| collected.output.destination == Destination::Commands)
        .filter_map(|collected| collected.output.value.as_deref())
}

/// `a.b.c=value` as nested tables. A value is JSON if it can be read as such, else text.
fn overrides(sets: &[String]) -> Result<Value, Failure> {
    let mut root = Map::new();
    for set in sets {
        let bad = |what: &str| {
            Diagnostic::new("E0601", format!("--set {set:?} {what}")).help("as in: --set detectors.exact_repeat.threshold=5")
        };
        let (key, text) = set.split_once('=').ok_or_else(|| bad("has no `=`"))?;
        let value = match serde_json::from_str::<Value>(text.trim()) {
            Ok(Value::Null) | Err(_) => Value::String(text.trim().to_owned()),
            Ok(value) => value,
        };
        let mut parts: Vec<&str> = key.trim().split('.').collect();
        let last = parts.pop().filter(|last| !last.is_empty()).ok_or_else(|| bad("has no key"))?;
        let mut table = &mut root;
        for part in parts {
            let inner = table.entry(part).or_insert_with(|| Value::Object(Map::new()));
            table = inner.as_object_mut().ok_or_else(|| bad("names a key below a value"))?;
        }
        table.insert(last.to_owned(), value);
    }
    Ok(Value::Object(root))
}

fn rows<T>(file: &Path, parse: impl Fn(&str) -> Result<T, crate::report::BadRow>) -> Result<Vec<T>, Failure> {
    use std::io::Read as _;
    let name = file.display();
    let fail = |cause: String| Failure::new(exit_code::FAILED, format!("error: cannot read {name}: {cause}"));
    let opened = std::fs::File::open(file).map_err(|error| fail(error.to_string()))?;
    let mut text = String::new();
    opened.take(ROWS_BYTES_MAX).read_to_string(&mut text).map_err(|error| fail(error.to_string()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| parse(line).map_err(|bad| Failure::new(exit_code::FAILED, format!("error: {name}:{}: {bad}", at + 1))))
        .collect()
}

fn tell_rejected(found: &Found) {
    for (file, line, reason) in found.rejected.iter().take(REJECTED_SHOWN) {
        say(format!("{file}:{line}: no event: {reason}"));
    }
    if found.rejected.len() > REJECTED_SHOWN {
        say(format!("… and {} more lines that are no events", found.rejected.len() - REJECTED_SHOWN));
    }
}

fn events(found: &Found) -> u64 {
    found.stats.events.iter().sum()
}

fn header(found: &Found, policy: &Policy) -> String {
    let partial = if found.is_partial { ", stopped before the end" } else { "" };
    let hash: String = policy.hash.to_string().chars().take(12).collect();
    format!(
        "{} events of {} sessions, {} rejected{partial}; policy {} ({hash})\n\n",
        grouped(events(found)),
        grouped(found.sessions),
        grouped(found.rejected.len() as u64),
        policy.profile
    )
}

fn summary(found: &Found) -> String {
    let partial = if found.is_partial { " (stopped before the end)" } else { "" };
    let seconds = found.elapsed.as_secs_f64().max(0.001);
    format!(
        "{} events of {} sessions, {} rejected, in {seconds:.1} s ({}/s){partial}",
        grouped(events(found)),
        grouped(found.sessions),
        grouped(found.rejected.len() as u64),
        grouped((events(found) as f64 / seconds) as u64)
    )
}

/// Which detectors had nothing to read.
fn blind_spots(stats: &Stats) -> Vec<String> {
    let [calls, results, both, ..] = stats.events;
    let [args, result, time, _] = stats.without;
    let all = calls + results + both;
    let mut warnings = Vec::new();
    if calls + both > 0 && args == calls + both {
        let warning = Diagnostic::new("W0301", format!("100 % of {} calls have no arguments", grouped(args)));
        warnings
            .push(warning.help("detectors that compare calls cannot work; turn on argument capture in the agent").to_string());
    }
    if results + both > 0 && result == results + both {
        warnings
            .push(format!("none of {} results says what came back: detectors that compare answers saw nothing", grouped(result)));
    }
    if all > 0 && results + both == 0 {
        warnings.push("there are calls, but no results: detectors that compare answers saw nothing".to_owned());
    }
    if all > 0 && time >= all {
        warnings.push("no event says when it happened: windows and rates mean nothing here".to_owned());
    }
    warnings
}

fn to_json(found: &Found, policy: &Policy, counts: &Counts, judgement: Option<&Judgement>) -> Value {
    let mut rejections = Table::new(&[Column::text("file"), Column::number("line"), Column::text("reason")]);
    for (file, line, reason) in &found.rejected {
        rejections.row(vec![file.clone().into(), (*line).into(), reason.clone().into()]);
    }
    serde_json::json!({
        "events": events(found),
        "sessions": found.sessions,
        "rejected": found.rejected.len(),
        "is_partial": found.is_partial,
        "policy": { "profile": policy.profile, "sha256": policy.hash.to_string() },
        "detectors": counts.table().to_objects(),
        "unblocks": counts.unblocks(),
        "rejections": rejections.to_objects(),
        "judgement": judgement.map(Judgement::to_json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_become_nested_tables() {
        let sets = ["detectors.exact_repeat.threshold=5", "detectors.exact_repeat.mode=shadow", "a=[1,2]"].map(str::to_owned);
        let value = overrides(&sets).expect("overrides");
        assert_eq!(
            value,
            serde_json::json!({ "detectors": { "exact_repeat": { "threshold": 5, "mode": "shadow" } }, "a": [1, 2] })
        );
        assert!(overrides(&["x".to_owned()]).is_err());
        assert!(overrides(&["a=1".to_owned(), "a.b=2".to_owned()]).is_err());
    }

    #[test]
    fn a_fleet_without_arguments_is_told_so() {
        let mut stats = Stats::default();
        stats.events[2] = 10;
        stats.without[0] = 10;
        let told = blind_spots(&stats);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("warning[W0301]: 100 % of 10 calls"), "{told:?}");
    }
}
