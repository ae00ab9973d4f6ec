//! Many sessions: what memory and CPU do when there are a million of them. No broker: a log that makes its events as they are read,
//! the lane, and RocksDB in a directory of its own.
//!
//! `cargo bench --bench sessions -- [--sessions N] [--steps N] [--active N] [--keep DIR]`
//!
//! `--active` sessions run at once, each event of one after one event of each other; then the next ones. All of them at once (the
//! default) is the worst there is: each event finds its session long gone from the cache. One JSON line: resident memory at its
//! highest, open files, bytes on disk, CPU of the process (user and system, all threads, events made included) per event.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    reason = "a benchmark reads the clock, prints, and stops when something is missing"
)]

use std::time::{Duration, Instant};
use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use loopwarden::event::{EventTime, NextOffset, Record, RecordMeta, RecordOffset, Stage, TaskId};
use loopwarden::log::{Changelog, CommitOutcome, Destination, Flow, Log, LogError, LogEvent, Output};
use loopwarden::store::{RocksOptions, RocksStore, StoreOwner};
use loopwarden::task::{Exit, InlineRestorer, Lane, LaneSettings, Leases, SystemClock, Turn};
use loopwarden::{config::policy, engine::SessionEngine, limits};

#[path = "process.rs"]
mod process;
use process::cpu_seconds;

/// Partitions of the input: tasks of the lane.
const PARTITIONS: u64 = 8;
/// Records of a poll, as those of the client.
const POLL_RECORDS: u64 = 1_000;
/// 2026-01-01.
const START_MS: i64 = 1_767_225_600_000;

#[derive(Debug, Clone)]
struct Options {
    sessions: u64,
    steps: u64,
    active: u64,
    dir: Option<PathBuf>,
}

fn options() -> Options {
    let mut options = Options { sessions: 10_000, steps: 40, active: 0, dir: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().unwrap().parse().unwrap();
        match argument.as_str() {
            "--sessions" => options.sessions = number(),
            "--steps" => options.steps = number(),
            "--active" => options.active = number(),
            "--keep" => options.dir = Some(arguments.next().unwrap().into()),
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options.active = if options.active == 0 { options.sessions } else { options.active.min(options.sessions) };
    options
}

/// Events that exist only while they are read.
struct Made {
    options: Options,
    /// Events handed over, in the order of all partitions.
    at: u64,
    offsets: [u64; PARTITIONS as usize],
    value: String,
    key: String,
    is_assigned: bool,
    staged: u64,
    changelog: [u64; PARTITIONS as usize],
    commands: u64,
    changelog_bytes: u64,
}

impl Made {
    fn new(options: Options) -> Self {
        let (offsets, changelog) = ([0; PARTITIONS as usize], [0; PARTITIONS as usize]);
        let (value, key) = (String::new(), String::new());
        Self { options, at: 0, offsets, value, key, is_assigned: false, staged: 0, changelog, commands: 0, changelog_bytes: 0 }
    }

    fn end(&self) -> u64 {
        self.options.sessions * self.options.steps
    }

    /// Writes the next event; its session.
    fn make(&mut self) -> u64 {
        let Options { active, steps, sessions, .. } = self.options;
        let wave = self.at / (active * steps);
        let size = active.min(sessions - wave * active);
        let in_wave = self.at - wave * active * steps;
        let (step, session) = (in_wave / size, wave * active + in_wave % size);
        let time = START_MS + ((wave * steps + step) * 1_000) as i64;
        self.key.clear();
        write!(self.key, "session-{session:012x}").unwrap();
        self.value.clear();
        // An agent at work: it reads, edits, tests, searches, and learns something each time. One session in fifty goes in circles.
        let (tool, arg) = match step % 4 {
            _ if session % 50 == 49 && step > 30 => ("bash", 7),
            0 => ("read_file", step / 4),
            1 => ("edit", step),
            2 => ("bash", step / 4),
            _ => ("search", step),
        };
        let word = session.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(step.wrapping_mul(0xbf58_476d_1ce4_e5b9));
        write!(
            self.value,
            "{{\"id\":\"{session:x}-{step}\",\"kind\":\"tool\",\"session_id\":\"{}\",\"time\":{time},\"tool\":\"{tool}\",\
             \"args\":{{\"path\":\"src/module_{arg}.rs\",\"query\":\"fn run_{arg}\"}},",
            self.key
        )
        .unwrap();
        if session % 50 == 49 && step > 30 {
            self.value.push_str("\"outcome\":\"error\",\"error\":\"exit 1: assertion failed\"}");
        } else {
            write!(self.value, "\"result\":\"fn w{word:x}() {{ let v{step} = read(); run(v{step}) }}\"}}").unwrap();
        }
        session
    }
}

impl Log for Made {
    fn poll(&mut self, _: Duration, handler: &mut dyn FnMut(TaskId, &Record<'_>) -> Flow) -> Result<LogEvent, LogError> {
        if !self.is_assigned {
            self.is_assigned = true;
            let tasks = (0..PARTITIONS as u32).map(|partition| TaskId { stage: Stage::Session, partition });
            return Ok(LogEvent::Assigned(tasks.collect()));
        }
        let mut handed = 0;
        while handed < POLL_RECORDS && self.at < self.end() {
            let session = self.make();
            let partition = (session % PARTITIONS) as u32;
            let offset = &mut self.offsets[partition as usize];
            let time = self.at;
            let meta = RecordMeta {
                topic: "events",
                partition,
                offset: RecordOffset(*offset),
                timestamp: EventTime(START_MS + (time / 1_000) as i64),
                key: Some(self.key.as_bytes()),
                headers: Vec::new(),
                value_bytes_max: limits::RECORD_BYTES_MAX_DEFAULT,
            };
            *offset += 1;
            self.at += 1;
            handed += 1;
            let task = TaskId { stage: Stage::Session, partition };
            if handler(task, &Record::new(meta, Some(self.value.as_bytes()))) == Flow::Stop {
                break;
            }
        }
        Ok(if handed == 0 { LogEvent::End } else { LogEvent::Records(handed as usize) })
    }

    fn assign(&mut self, _: &[TaskId]) -> Result<(), LogError> {
        Ok(())
    }

    fn start(&mut self, task: TaskId, next: NextOffset) -> Result<(), LogError> {
        assert_eq!(next.0, self.offsets[task.partition as usize], "nothing fails here, so nothing is read twice");
        Ok(())
    }

    fn pause(&mut self, _: TaskId) -> Result<(), LogError> {
        Ok(())
    }

    fn unassign(&mut self, _: &[TaskId]) -> Result<(), LogError> {
        Ok(())
    }

    fn stage(&mut self, output: Output) {
        self.staged += 1;
        match output.destination {
            Destination::Changelog(task) => {
                self.changelog[task.partition as usize] += 1;
                self.changelog_bytes += (output.key.len() + output.value.map_or(0, |value| value.len())) as u64;
            }
            Destination::Commands => self.commands += 1,
            _ => {}
        }
    }

    fn discard(&mut self) {}

    fn commit(&mut self, offsets: &[(TaskId, NextOffset)]) -> CommitOutcome {
        let next = |(task, _): &(TaskId, NextOffset)| (*task, self.changelog[task.partition as usize]);
        CommitOutcome::Committed { changelog_next: offsets.iter().map(next).collect() }
    }

    fn reopen(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    fn changelog(&self) -> Result<Option<Box<dyn Changelog>>, LogError> {
        Ok(None)
    }

    fn commits_state(&self) -> bool {
        false
    }

    fn swarm_partitions(&self) -> u32 {
        0
    }

    fn owner(&self) -> &str {
        "bench"
    }

    fn close(&mut self, _: bool) -> Result<(), LogError> {
        Ok(())
    }
}

fn main() {
    let options = options();
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sessions-{}", std::process::id()));
    let dir = options.dir.clone().unwrap_or_else(|| scratch.clone());
    let owner = StoreOwner { app: "bench".into(), instance: "lw-0".into(), cluster: None };
    let store = RocksStore::open(&dir, &RocksOptions::default(), &owner).unwrap();
    let settings = Arc::new(LaneSettings::default());
    let restorer = Box::new(InlineRestorer::new(store.clone(), None, Arc::clone(&settings)));
    let engine = SessionEngine::new("bench", Arc::new(policy::load("default").unwrap()));
    let made = Made::new(options.clone());
    let mut lane = Lane::new(made, store.clone(), engine, restorer, Leases::new(), settings);
    let clock = SystemClock::start();
    let begun = Instant::now();
    let cpu = cpu_seconds(std::process::id());
    // The last fifth, where everything is as large as it gets.
    let last = lane.log().end() / 5 * 4;
    let mut late: Option<(f64, u64)> = None;
    let mut highest = (0, 0);
    let mut turns = 0_u64;
    let exit = loop {
        match lane.turn(&clock) {
            Turn::Ended(exit) => break exit,
            Turn::Idle | Turn::Worked => {}
        }
        turns += 1;
        if late.is_none() && lane.log().at >= last {
            late = Some((cpu_seconds(std::process::id()), lane.log().at));
        }
        if turns.is_multiple_of(256) {
            highest = (highest.0.max(status_mib("VmRSS:")), highest.1.max(open_files()));
        }
    };
    assert!(matches!(exit, Exit::Done | Exit::Stopped), "{exit}");
    let events = lane.log().at;
    let (used, took) = (cpu_seconds(std::process::id()) - cpu, begun.elapsed());
    let (late_cpu, late_at) = late.unwrap();
    let late_us = (cpu_seconds(std::process::id()) - late_cpu) * 1e6 / (events - late_at).max(1) as f64;
    let stats = lane.stats();
    let disk = store.stats().unwrap();
    println!(
        "{{\"sessions\":{},\"steps\":{},\"active\":{},\"events\":{events},\"wall_s\":{:.1},\"cpu_us_per_event\":{:.2},\
         \"cpu_us_per_event_last_fifth\":{late_us:.2},\"rss_mib_sampled\":{},\"rss_mib_peak\":{},\"open_files\":{},\"sst_mib\":{},\
         \"memtable_mib\":{},\"block_cache_mib\":{},\"cache_mib\":{},\"sessions_cached\":{},\"cache_hits\":{},\"cache_misses\":{},\
         \"commits\":{},\"commands\":{},\"changelog_bytes_per_event\":{:.0},\"stall_ms\":{}}}",
        options.sessions,
        options.steps,
        options.active,
        took.as_secs_f64(),
        used * 1e6 / events as f64,
        highest.0,
        status_mib("VmHWM:"),
        highest.1,
        disk.sst_bytes >> 20,
        disk.memtable_bytes >> 20,
        disk.cache_bytes >> 20,
        lane.bytes().1 >> 20,
        lane.sessions_cached(),
        stats.cache[0],
        stats.cache[1],
        stats.transactions[0],
        lane.log().commands,
        lane.log().changelog_bytes as f64 / events as f64,
        disk.stall_us / 1_000,
    );
    drop((lane, store));
    if options.dir.is_none() {
        let _ = std::fs::remove_dir_all(&scratch);
    }
}

fn status_mib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}
