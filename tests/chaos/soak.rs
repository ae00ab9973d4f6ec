//! The soak (T21): a group that works for long, one of its processes restarted and frozen every minute. What the others take of the
//! machine must not grow, and in the end every command must be there once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, sync::Arc, sync::mpsc::sync_channel, time::Duration};

use loopwarden::clock::{Deadline, Stopwatch};
use loopwarden::{clock, event::EventTime};

use crate::flat::{SAMPLE_EVERY, Series};
use crate::scenario::{Scenario, Verdict};
use crate::{flat, report};

/// Events a second: the input is one stream, whatever the machine.
const RATE: u64 = 1_000;
const PARTITIONS: u32 = 12;
/// Processes that are left alone, and watched; one more is not.
const WATCHED: usize = 2;
const DISTURB_EVERY_MS: u64 = 60_000;
/// Shorter than a session: the group waits for it.
const FREEZE_MS: u64 = 4_000;

/// One soak.
pub(crate) struct Soak {
    minutes: u64,
    watched: Vec<Series>,
    /// Events that wait for a commit, by moment.
    lag: Vec<(u64, u64)>,
    disturbed: u64,
    exits: usize,
    produced: u64,
    verdict: Verdict,
}

/// Works for so many minutes.
pub(crate) fn run(bootstrap: &str, minutes: u64) -> Soak {
    let watch = Stopwatch::start();
    let now_ms = || watch.elapsed().as_millis() as u64;
    let mut scenario = Scenario::new(bootstrap, "soak", minutes, PARTITIONS);
    for _ in 0..=WATCHED {
        scenario.add(2, &[]);
    }
    let events = minutes * 60 * RATE;
    let target = Arc::new(AtomicU64::new(0));
    let feeder =
        scenario.feeder.take().expect("a feeder").follow(Arc::clone(&target), events, scenario.audit(), sync_channel(0).1);
    let series = |at| Series::new(format!("{at}"), minutes * 60_000);
    let (mut watched, mut lag) = ((0..WATCHED).map(series).collect::<Vec<_>>(), Vec::new());
    let (mut disturbed, mut thaw_at_ms, mut next) = (0, None, Deadline::after(SAMPLE_EVERY));
    while now_ms() < minutes * 60_000 {
        let due = now_ms() * RATE / 1_000;
        target.store(due.min(events), Ordering::Release);
        for at in scenario.ended() {
            scenario.start(at);
        }
        if next.is_over() {
            next = Deadline::after(SAMPLE_EVERY);
            for (series, process) in watched.iter_mut().zip(&scenario.processes) {
                series.note(process, now_ms());
            }
            lag.push((now_ms(), due.saturating_sub(scenario.processed())));
        }
        if thaw_at_ms.is_some_and(|at_ms| at_ms <= now_ms()) {
            thaw_at_ms = None;
            scenario.processes[WATCHED].thaw();
        }
        if now_ms() >= (disturbed + 1) * DISTURB_EVERY_MS && thaw_at_ms.is_none() {
            disturbed += 1;
            println!("{:>4} s: {} events behind a commit", now_ms() / 1_000, scenario.processed());
            match disturbed % 3 {
                0 => {
                    scenario.processes[WATCHED].freeze();
                    thaw_at_ms = Some(now_ms() + FREEZE_MS);
                }
                1 => scenario.kill(WATCHED),
                _ => assert!(scenario.processes[WATCHED].finish("TERM").success(), "it did not end well"),
            }
            if !scenario.processes[WATCHED].is_running() {
                scenario.start(WATCHED);
            }
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    target.store(events, Ordering::Release);
    scenario.feeder = Some(feeder.join().expect("the feeder"));
    scenario.settle();
    let (exits, produced) = (scenario.exits.len(), events);
    Soak { minutes, watched, lag, disturbed, exits, produced, verdict: scenario.verify() }
}

impl Soak {
    /// What has grown, and by what part.
    fn grown(&self) -> Vec<String> {
        self.watched.iter().flat_map(Series::grown).collect()
    }

    pub(crate) fn is_good(&self) -> bool {
        let is_whole = !self.watched.iter().any(Series::is_empty);
        is_whole && self.exits == 0 && self.verdict.problems.is_empty() && self.grown().is_empty()
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { minutes, disturbed, exits, produced, .. } = self;
        writeln!(f, "# Soak: {}\n", if self.is_good() { "flat" } else { "FAILED" })?;
        writeln!(f, "    LOOPWARDEN_SOAK_MINUTES={minutes} cargo test --release --locked --test chaos\n")?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", report::machine())?;
        writeln!(
            f,
            "| processes | {} of 2 lanes, {PARTITIONS} partitions; the last is killed, restarted or frozen every minute: {disturbed} times |",
            WATCHED + 1
        )?;
        writeln!(f, "| events | {produced}, {RATE} a second |")?;
        writeln!(f, "| processes that ended by themselves | {exits} |")?;
        f.write_str(&report::fault_rows(&self.verdict))?;
        let of = |quarter: u64| {
            let is_in = |(at_ms, _): &&(u64, u64)| at_ms * 4 / (minutes * 60_000) == quarter;
            let mut found: Vec<u64> = self.lag.iter().filter(is_in).map(|(_, lag)| *lag).collect();
            found.sort_unstable();
            format!("{} and {}", found.get(found.len() / 2).unwrap_or(&0), found.last().unwrap_or(&0))
        };
        writeln!(
            f,
            "| events not behind a commit, median and most, quarter by quarter | {}; {}; {}; {} |",
            of(0),
            of(1),
            of(2),
            of(3)
        )?;
        writeln!(f, "\nWhat the processes that were left alone took, mean of each quarter:\n")?;
        f.write_str(flat::HEAD)?;
        for series in &self.watched {
            f.write_str(&series.rows())?;
        }
        for words in self.grown() {
            writeln!(f, "\n**grown** {words}")?;
        }
        for (kind, words) in &self.verdict.problems {
            writeln!(f, "\n**{kind}** {words}")?;
        }
        Ok(())
    }
}
