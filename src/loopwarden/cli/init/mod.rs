//! `init`: the first hour as one path. Three questions, a configuration file, hooks, the service; then what was done, and what undoes it.

mod args;
mod plan;
mod questions;
mod settings;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _};

use args::Answers;
pub use args::{InitArgs, On};
use plan::Plan;
use questions::Questions;

use crate::failure::{Failure, Outcome};
use crate::{cli::hook, exit_code, output::Output};

/// Asks what the flags leave open, looks, and does it.
///
/// # Errors
/// No terminal and not all flags; a file that is there; settings that no process takes; a write that fails.
pub fn run(args: &InitArgs) -> Outcome {
    let is_terminal = io::stdin().is_terminal();
    if !is_terminal {
        expect_all(args)?;
    }
    if args.agents.len() > 1 && args.agents.iter().any(|agent| agent == args::NONE) {
        return Err(hook::usage("--agent none stands alone"));
    }
    let mut questions = Questions { input: io::stdin().lock(), output: io::stderr() };
    let on = args.on.map_or_else(|| questions.on(), Ok)?;
    let bootstrap = match (&args.bootstrap, on) {
        (Some(bootstrap), On::Kafka) => bootstrap.clone(),
        (None, On::Kafka) => questions.bootstrap()?,
        (Some(_), On::Laptop) => return Err(hook::usage("--bootstrap is for --on kafka")),
        (None, On::Laptop) => String::new(),
    };
    let mut agents = match args.agents.as_slice() {
        [] => questions.agents(&hook::agents().collect::<Vec<_>>(), &hook::found())?,
        agents => agents.iter().filter(|agent| *agent != args::NONE).cloned().collect(),
    };
    let mut seen = BTreeSet::new();
    agents.retain(|agent| seen.insert(agent.clone()));
    let mode = args.mode.map_or_else(|| questions.mode(), Ok)?;
    let plan = Plan::of(args, Answers { on, bootstrap, agents, mode })?;
    let mut out = Output::stdout();
    if args.dry_run || !args.yes {
        plan.carry_out(true, &mut out)?;
        out.flush()?;
    }
    if args.dry_run {
        return Ok(());
    }
    if !args.yes && !questions.is_right()? {
        return Err(Failure::new(exit_code::ANSWER_IS_NO, "nothing was written"));
    }
    plan.carry_out(false, &mut out)?;
    Ok(out.flush()?)
}

/// That nothing is left to be asked, where nobody can be.
fn expect_all(args: &InitArgs) -> Outcome {
    let missing: Vec<&str> = [
        ("--on laptop|kafka", args.on.is_none()),
        ("--bootstrap HOST:PORT", args.on == Some(On::Kafka) && args.bootstrap.is_none()),
        ("--agent NAME (or none)", args.agents.is_empty()),
        ("--mode shadow|live", args.mode.is_none()),
        ("--yes (or --dry-run)", !args.yes && !args.dry_run),
    ]
    .into_iter()
    .filter_map(|(flag, is_missing)| is_missing.then_some(flag))
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(hook::usage(&format!(
        "standard input is no terminal, so nothing can be asked; missing: {}\n  \
         as in: loopwarden init --on laptop --agent claude-code --mode shadow --yes",
        missing.join(", ")
    )))
}
