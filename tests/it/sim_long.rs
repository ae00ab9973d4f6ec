//! The long simulation: as many faults as somebody asks for, on all cores, counted by kind. Each input is run under many seeds, so that its
//! uninterrupted run is made once. `LOOPWARDEN_SIM_FAULTS` says how many faults, `LOOPWARDEN_SIM_SECONDS` how long at most. A seed that
//! ends otherwise is named with its plan; `make long-simulation` keeps what came of a run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{collections::BTreeMap, fmt::Write as _, path::Path, sync::Mutex};
use std::{fs, thread};

use loopwarden::{clock, clock::Stopwatch, event::EventTime};
use loopwarden_sim::{Fault, Step};

use crate::sim::{Counts, Plan, simulate};

/// Faults of the suite.
const FAULTS: u64 = 20_000;
/// Seeds over one input.
const SEEDS_PER_FLEET: u64 = 25;
/// Of a thousand steps of the worst seeds: commits still come through.
const PER_MILLE_MAX: u64 = 400;

/// See [`Plan::slower`]: of each input the most comes through while faults last, and not in the calm after them.
const SLOWER: u64 = 40;
/// What processes do anyway is no fault.
const NO_FAULTS: [&str; 2] = ["process joins or leaves", "changelog compacted"];

/// What came of seeds.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    /// Faults of the broker.
    struck: BTreeMap<(Step, Fault), u64>,
    /// Of processes, by their words.
    befell: Counts,
    /// Plans of seeds that ended otherwise.
    wrong: Vec<String>,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.wrong.extend(other.wrong);
        other.struck.into_iter().for_each(|(kind, count)| *self.struck.entry(kind).or_default() += count);
        other.befell.into_iter().for_each(|(what, count)| *self.befell.entry(what).or_default() += count);
    }

    fn faults(&self) -> u64 {
        let of_processes = self.befell.iter().filter(|(what, _)| !NO_FAULTS.contains(&what.as_str()));
        self.struck.values().chain(of_processes.map(|(_, count)| count)).sum()
    }
}

/// All seeds of one input.
fn work_off(fleet: u64) -> Sum {
    let mut sum = Sum::default();
    let plan = |seed| Plan { fleet, seed, per_mille_max: PER_MILLE_MAX, slower: SLOWER };
    let records = plan(0).records();
    let expected = plan(0).reference(&records);
    for seed in fleet * SEEDS_PER_FLEET..(fleet + 1) * SEEDS_PER_FLEET {
        let found = std::panic::catch_unwind(|| {
            let simulated = simulate(plan(seed), &records);
            simulated.outcome.assert_is(&expected, &format!("seed {seed}"));
            (simulated.struck, simulated.befell)
        });
        sum.seeds += 1;
        let Ok((struck, befell)) = found else {
            sum.wrong.push(format!("{:?}", plan(seed)));
            continue;
        };
        for (_, step, fault) in struck.fired() {
            *sum.struck.entry((*step, *fault)).or_default() += 1;
        }
        befell.into_iter().for_each(|(what, count)| *sum.befell.entry(what).or_default() += count);
    }
    sum
}

/// The page of a run.
fn page(sum: &Sum, asked: u64, threads: usize, took_s: u64) -> String {
    let head = if sum.wrong.is_empty() { "as if nothing had happened" } else { "FAILED" };
    let mut page = format!("# Simulation: {head}\n\n");
    let _ = writeln!(page, "    LOOPWARDEN_SIM_FAULTS={asked} cargo test --release --locked --test it -- sim_long\n");
    let _ = writeln!(page, "| | |\n|---|---|");
    let rate = sum.faults() / took_s.max(1);
    for (name, value) in [
        ("when", EventTime(clock::now_ms()).to_rfc3339()),
        ("threads, took", format!("{threads}, {took_s} s: {rate} faults a second")),
        ("seeds, each compared with its uninterrupted run", sum.seeds.to_string()),
        ("faults", format!("**{}**", sum.faults())),
        ("seeds that ended otherwise", format!("**{}**", sum.wrong.len())),
    ] {
        let _ = writeln!(page, "| {name} | {value} |");
    }
    let _ = writeln!(page, "\n| step | fault | times |\n|---|---|---|");
    for ((step, fault), count) in &sum.struck {
        let _ = writeln!(page, "| {step:?} | {fault:?} | {count} |");
    }
    for (what, count) in &sum.befell {
        let is_fault = if NO_FAULTS.contains(&what.as_str()) { ", no fault" } else { "" };
        let _ = writeln!(page, "| between two steps{is_fault} | {what} | {count} |");
    }
    sum.wrong.iter().for_each(|plan| page += &format!("\n**{plan}**\n"));
    page
}

#[test]
fn as_many_faults_as_are_asked_for_leave_no_trace() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let asked = number("LOOPWARDEN_SIM_FAULTS");
    let (faults, seconds) = (asked.unwrap_or(FAULTS), number("LOOPWARDEN_SIM_SECONDS").unwrap_or(u64::MAX));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (next, sum, watch) = (AtomicU64::new(0), Mutex::new(Sum::default()), Stopwatch::start());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while sum.lock().unwrap().faults() < faults && watch.elapsed().as_secs() < seconds {
                    let of_fleet = work_off(next.fetch_add(1, Ordering::Relaxed));
                    let mut sum = sum.lock().unwrap();
                    sum.add(of_fleet);
                    if asked.is_some() && sum.seeds % (400 * SEEDS_PER_FLEET) < SEEDS_PER_FLEET {
                        let (seeds, wrong) = (sum.seeds, sum.wrong.len());
                        println!("{:>5} s: {} faults, {seeds} seeds, {wrong} wrong", watch.elapsed().as_secs(), sum.faults());
                    }
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    let page = page(&sum, faults, threads, watch.elapsed().as_secs());
    if asked.is_some() {
        println!("{page}");
        let date: String = EventTime(clock::now_ms()).to_rfc3339().chars().take(10).collect();
        let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chaos/runs");
        fs::write(runs.join(format!("{date}-simulation.md")), &page).unwrap();
    }
    assert!(sum.wrong.is_empty(), "{page}");
    // Each kind that makes sense at a step has struck there.
    for step in [Step::Poll, Step::Rejoin, Step::Begin, Step::Send, Step::Offsets, Step::Commit, Step::AfterCommit] {
        for fault in step.faults() {
            assert!(sum.struck.contains_key(&(step, *fault)), "{fault:?} has never struck at {step:?}");
        }
    }
}
