//! The kill loop (T4): real processes on a real broker, killed again and again, and the auditor. `make test` runs it short, `make
//! chaos` and `make long-proof` long; `LOOPWARDEN_CHAOS_KILLS`, `_EVENTS`, `_SEED`, `_PAUSE_MS` say how long and which. With
//! `LOOPWARDEN_CHAOS_LOG=embedded` its processes have logs of their own and no broker. With `LOOPWARDEN_CHAOS_OLD`, the path of an
//! earlier program, each start draws one of the two (T19, `make upgrade`). With `LOOPWARDEN_SOAK_MINUTES` it is the soak instead (T21,
//! `make soak`), with `LOOPWARDEN_LAG_RUNS` the test of partitions that lag (`make lag`), with `LOOPWARDEN_SPENDING_KILLS` that of a
//! tenant's budget (`make spending`), and with `LOOPWARDEN_SOAK_LOG=embedded` the soak of the embedded log, which needs no broker.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this binary is test code; the lints' own exemption knows test functions only"
)]

mod acts;
mod auditor;
mod client;
mod disk;
mod embedded;
mod embedded_loop;
#[path = "../common/environment.rs"]
mod environment;
mod feeder;
mod flat;
mod fleet;
mod guards;
mod kill_loop;
mod lag;
mod outcome;
mod people;
mod process;
mod reference;
mod report;
#[expect(dead_code, reason = "shared with the tests of the log")]
mod scenario;
mod soak;
mod spending;
mod topic;
mod victims;
mod wall_clock;

#[path = "../kafka/broker.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod broker;
#[path = "../kafka/proxy.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod proxy;
#[path = "../kafka/world.rs"]
#[expect(dead_code, reason = "shared with the tests of the log")]
mod world;

use std::{fmt::Display, process::ExitCode};

use kill_loop::Plan;

/// Of the short run, which follows the short kill loop.
const SPENDING_KILLS: u64 = 2;

/// A number that somebody gave in the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
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
    let is_embedded = |name: &str| std::env::var(name).is_ok_and(|log| log == "embedded");
    if let Some(minutes) = number("LOOPWARDEN_SOAK_MINUTES") {
        if is_embedded("LOOPWARDEN_SOAK_LOG") {
            let soak = embedded::run(minutes);
            return end(&soak, "-soak-embedded", true, soak.is_good());
        }
        let Some(bootstrap) = broker::bootstrap() else { return ExitCode::SUCCESS };
        let soak = soak::run(bootstrap, minutes);
        return end(&soak, "-soak", true, soak.is_good());
    }
    if let Some(runs) = number("LOOPWARDEN_LAG_RUNS") {
        let Some(bootstrap) = broker::bootstrap() else { return ExitCode::SUCCESS };
        let is_good = lag::runs(bootstrap, runs, number("LOOPWARDEN_LAG_EVENTS"));
        return if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(kills) = number("LOOPWARDEN_SPENDING_KILLS") {
        let Some(spending) = spending::run(kills, number("LOOPWARDEN_CHAOS_SEED").unwrap_or(kills)) else {
            return ExitCode::SUCCESS;
        };
        return end(&spending, "-spending", true, spending.is_good() && spending.is_in_time());
    }
    let plan = Plan::of_environment();
    println!("chaos: {} kills, {} events, seed {}", plan.kills, plan.events, plan.seed);
    if is_embedded("LOOPWARDEN_CHAOS_LOG") {
        let run = embedded_loop::run(&plan);
        return end(&run, "-embedded", plan.is_kept, run.is_good());
    }
    let Some(run) = kill_loop::run(&plan) else { return ExitCode::SUCCESS };
    let code = end(&run, run.kind(), plan.is_kept, run.is_good());
    if plan.is_kept || !run.is_good() {
        return code;
    }
    let Some(spending) = spending::run(SPENDING_KILLS, plan.seed) else { return code };
    end(&spending, "-spending", false, spending.is_good())
}

/// Shows a run, and keeps it where somebody asked for it. A panic would leave a broker behind; returning ends it.
fn end(run: &impl Display, kind: &str, is_kept: bool, is_good: bool) -> ExitCode {
    println!("{run}");
    if is_kept {
        report::keep(kind, &run.to_string());
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
