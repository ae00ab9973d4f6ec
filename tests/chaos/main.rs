//! The kill loop (T4): real processes on a real broker, killed again and again, and the auditor. `make test` runs it short, `make
//! chaos` long; `LOOPWARDEN_CHAOS_KILLS`, `_EVENTS`, `_SEED` say how long and which. With `LOOPWARDEN_CHAOS_OLD`, the path of an
//! earlier program, each start draws one of the two (T19, `make upgrade`). With `LOOPWARDEN_SOAK_MINUTES` it is the soak instead (T21,
//! `make soak`), with `LOOPWARDEN_LAG_RUNS` the test of partitions that lag (`make lag`), and with `LOOPWARDEN_SOAK_LOG=embedded` that of the embedded log, which needs no broker.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this binary is test code; the lints' own exemption knows test functions only"
)]

mod auditor;
mod embedded;
mod flat;
mod fleet;
mod lag;
mod outcome;
mod process;
mod reference;
mod report;
#[expect(dead_code, reason = "shared with the tests of the log")]
mod scenario;
mod soak;

#[path = "../kafka/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod broker;
#[path = "../kafka/proxy.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod proxy;
#[path = "../kafka/world.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleet::Dice;
use loopwarden::clock;
use loopwarden::clock::{Deadline, Stopwatch};
use report::Run;
use scenario::Scenario;

/// Longer than a session (10 s): who wakes up after it is a zombie.
const FREEZE_MS: u64 = 10_500;

/// How long a run is.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) kills: u64,
    pub(crate) events: u64,
    pub(crate) seed: u64,
    pub(crate) processes: usize,
    pub(crate) lanes: u32,
    pub(crate) partitions: u32,
    /// Somebody asked for this length: it is kept.
    pub(crate) is_kept: bool,
    /// An earlier program beside this one.
    pub(crate) old: Option<PathBuf>,
}

/// A number that somebody gave in the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

impl Plan {
    fn of_environment() -> Self {
        let number = |name: &str| number(&format!("LOOPWARDEN_CHAOS_{name}"));
        let kills = number("KILLS");
        Self {
            kills: kills.unwrap_or(6),
            events: number("EVENTS").unwrap_or(20_000),
            seed: number("SEED").unwrap_or_else(|| if kills.is_some() { clock::now_ms() as u64 } else { 1 }),
            processes: 3,
            lanes: 2,
            partitions: 12,
            is_kept: kills.is_some(),
            old: std::env::var_os("LOOPWARDEN_CHAOS_OLD").map(PathBuf::from),
        }
    }

    /// What a start may run; the group begins with the first.
    fn programs(&self) -> Vec<PathBuf> {
        self.old.iter().cloned().chain([process::this_program()]).collect()
    }
}

/// What is going to happen to a process, in ms of the run.
#[derive(Debug, Clone, Copy)]
enum Due {
    Start(u64),
    Thaw(u64),
}

fn main() -> ExitCode {
    // As the other test programs: a name filter that means something else, or a mere list.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    if arguments.iter().any(|argument| argument == "--list")
        || !(filters.is_empty() || filters.iter().any(|name| "chaos".contains(name.as_str())))
    {
        return ExitCode::SUCCESS;
    }
    let minutes = number("LOOPWARDEN_SOAK_MINUTES");
    if let Some(minutes) = minutes.filter(|_| std::env::var("LOOPWARDEN_SOAK_LOG").is_ok_and(|log| log == "embedded")) {
        let soak = embedded::run(minutes);
        println!("{soak}");
        soak.keep();
        return if soak.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let Some(bootstrap) = broker::bootstrap() else { return ExitCode::SUCCESS };
    if let Some(minutes) = minutes {
        let soak = soak::run(bootstrap, minutes);
        println!("{soak}");
        soak.keep();
        return if soak.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(runs) = number("LOOPWARDEN_LAG_RUNS") {
        let is_good = lag::runs(bootstrap, runs, number("LOOPWARDEN_LAG_EVENTS"));
        return if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let plan = Plan::of_environment();
    println!("chaos: {} kills, {} events, seed {}", plan.kills, plan.events, plan.seed);
    let run = kill_loop(bootstrap, &plan);
    println!("{run}");
    if plan.is_kept {
        run.keep();
    }
    // A panic would leave the broker behind; returning ends it.
    if run.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn kill_loop(bootstrap: &str, plan: &Plan) -> Run {
    let watch = Stopwatch::start();
    let now_ms = || watch.elapsed().as_millis() as u64;
    let mut dice = Dice::new(plan.seed ^ 0xc4a05);
    let mut scenario = Scenario::new(bootstrap, "chaos", plan.seed, plan.partitions);
    let programs = plan.programs();
    scenario.program.clone_from(&programs[0]);
    for _ in 0..plan.processes {
        scenario.add(plan.lanes, &[]);
    }
    let step = plan.events / (plan.kills + 1);
    let target = Arc::new(AtomicU64::new(step));
    let feeder = scenario.feeder.take().expect("a feeder").follow(Arc::clone(&target), plan.events, scenario.audit());
    let mut done: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut due: BTreeMap<usize, Due> = BTreeMap::new();
    let mut kills = 0;
    let mut told_ms = 0;
    let count = |what: &'static str, done: &mut BTreeMap<&'static str, u64>| *done.entry(what).or_default() += 1;
    // At least one of each in a short run.
    let mut script = vec!["freeze", "kill"];
    let mut starts = vec![0; programs.len()];
    while kills < plan.kills || !due.is_empty() {
        let pause = Deadline::after(Duration::from_millis(200 + dice.below(4_000)));
        while !pause.is_over() {
            let ready: Vec<usize> = (due.iter())
                .filter(|(_, due)| matches!(due, Due::Start(at) | Due::Thaw(at) if *at <= now_ms()))
                .map(|(at, _)| *at)
                .collect();
            for at in ready {
                if matches!(due.get(&at), Some(Due::Start(_))) && programs.len() > 1 {
                    let drawn = dice.below(programs.len() as u64) as usize;
                    scenario.processes[at].program.clone_from(&programs[drawn]);
                    starts[drawn] += 1;
                }
                match due.remove(&at) {
                    Some(Due::Thaw(_)) => scenario.processes[at].thaw(),
                    // How long it takes is measured where nobody is frozen, since the group would wait for that one, and the directory is there.
                    _ if due.values().any(|due| matches!(due, Due::Thaw(_))) || !scenario.processes[at].state_dir().exists() => {
                        scenario.processes[at].start();
                    }
                    _ => scenario.start(at),
                }
            }
            for at in scenario.ended() {
                due.insert(at, Due::Start(now_ms() + dice.below(1_000)));
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        if now_ms() > told_ms + 15_000 {
            told_ms = now_ms();
            let (processed, exits) = (scenario.processed(), scenario.exits.len());
            let of = target.load(Ordering::Acquire);
            let audit = scenario.look();
            println!(
                "{:>4} s: {kills} kills, {processed} of {of} events behind a commit, {} outputs, {} commits, {} faults, {exits} exits",
                told_ms / 1_000,
                audit.outputs(),
                audit.commits,
                audit.faults.len()
            );
        }
        if kills >= plan.kills {
            continue;
        }
        let free: Vec<usize> =
            (0..plan.processes).filter(|at| !due.contains_key(at) && scenario.processes[*at].is_running()).collect();
        let Some(at) = free.get(dice.below(free.len().max(1) as u64) as usize).copied() else { continue };
        let action = script.pop().unwrap_or_else(|| match dice.below(100) {
            0..76 => "kill",
            76..84 => "kill all",
            84..91 => "freeze",
            91..96 => "restart",
            _ => "lose disk",
        });
        count(action, &mut done);
        match action {
            "freeze" => {
                scenario.processes[at].freeze();
                scenario.forget_births();
                due.insert(at, Due::Thaw(now_ms() + FREEZE_MS + dice.below(3_000)));
            }
            "restart" => {
                let status = scenario.processes[at].finish("TERM");
                if !status.success() {
                    let exit = scenario::Exit::of(&scenario.processes[at], status);
                    scenario.exits.push(exit);
                }
                due.insert(at, Due::Start(now_ms()));
            }
            _ => {
                let dying = if action == "kill all" { free } else { vec![at] };
                for at in dying {
                    scenario.kill(at);
                    kills += 1;
                    due.insert(at, Due::Start(now_ms() + dice.below(3_000)));
                }
                if action == "lose disk" {
                    scenario.forget_births();
                    scenario.processes[at].lose_disk();
                }
            }
        }
        target.store((step * (kills + 1)).min(plan.events), Ordering::Release);
    }
    target.store(plan.events, Ordering::Release);
    let killed_ms = now_ms();
    println!("{:>4} s: calm", killed_ms / 1_000);
    scenario.feeder = Some(feeder.join().expect("the feeder"));
    scenario.settle();
    let settled_ms = now_ms();
    println!("{:>4} s: settled", settled_ms / 1_000);
    let told =
        report::TOLD.map(|(name, words)| (name, scenario.processes.iter().map(|process| process.told(words)).sum::<usize>()));
    let exits = scenario.exits.iter().map(|exit| format!("{} {}", exit.name, exit.status)).collect();
    let (produced, backlog_max) = scenario.feeder.as_ref().map_or((0, 0), |feeder| (feeder.produced, feeder.backlog_max));
    let verdict = scenario.verify();
    let starts = (programs.len() > 1).then(|| (starts[0], starts[1]));
    Run {
        plan: plan.clone(),
        kills,
        starts,
        done,
        produced,
        backlog_max,
        killed_ms,
        settled_ms,
        took_ms: now_ms(),
        told,
        exits,
        verdict,
    }
}
