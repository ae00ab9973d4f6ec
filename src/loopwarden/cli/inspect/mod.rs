//! `inspect`: one session, swarm or task. From files or a topic it is decided anew, on the production machines; a running process is
//! asked for what it holds.
//!
//! Names, hashes, numbers; nothing of what agents wrote or read, unless that is asked for.

mod live;
pub(crate) mod source;

use std::sync::Arc;

use loopwarden_core::event::Stage;
use loopwarden_lab::explain::{SessionTrace, Shown, SwarmTrace, TaskTrace, Wanted};
use source::Input;

use crate::cli::args::{InspectArgs, InspectCommand, InspectFormat, LogArgs};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::setup, cli::shared::setup::task_of, exit_code, output::Output};

/// Inspects.
///
/// # Errors
/// Settings, files, brokers, the running process, or that there is no such thing.
pub fn run(command: &InspectCommand, log: &LogArgs) -> Outcome {
    setup::log_quietly(log)?;
    let args = match command {
        InspectCommand::Session(args) | InspectCommand::Swarm(args) | InspectCommand::Task(args) => args,
    };
    let is_live = args.files.is_empty() && args.range.topic.is_none();
    if is_live && (args.range.from.is_some() || args.range.to.is_some()) {
        return Err(Failure::new(exit_code::USAGE, "error: --from and --to are about a topic: give --topic with them"));
    }
    if is_live && (args.policy.is_some() || args.show_content) {
        return Err(Failure::new(
            exit_code::USAGE,
            "error: a running process decides by its own policy and keeps no content: --policy and --show-content are for --file or --topic",
        ));
    }
    let shown = match command {
        InspectCommand::Session(_) if is_live => live::session(args, log),
        InspectCommand::Swarm(_) if is_live => live::swarm(args, log),
        InspectCommand::Task(_) if is_live => live::task(args, log),
        InspectCommand::Session(_) => session(args, log),
        InspectCommand::Swarm(_) => swarm(args, log),
        InspectCommand::Task(_) => task(args, log),
    }?;
    print(args, &shown)
}

fn print(args: &InspectArgs, shown: &Shown) -> Outcome {
    let mut out = Output::stdout();
    match args.output {
        InspectFormat::Json => out.line(format!("{:#}", shown.json))?,
        InspectFormat::Table => out.sections(&shown.sections)?,
    }
    Ok(out.flush()?)
}

fn wanted(args: &InspectArgs) -> Wanted<'_> {
    Wanted { id: &args.id, tenant: args.tenant.as_deref(), limit: args.limit as usize, show_content: args.show_content }
}

/// Decides a session anew.
fn session(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let input = Input::of(args, log)?;
    let mut trace = SessionTrace::new(wanted(args), &input.app, Arc::clone(&input.policy));
    input.events(|event, record| trace.visit(event, record))?;
    trace.show().map_err(Failure::failed)
}

/// Decides a swarm anew.
fn swarm(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let input = Input::of(args, log)?;
    let mut trace = SwarmTrace::new(wanted(args), &input.app, Arc::clone(&input.policy));
    input.events(|event, record| trace.visit(event, record))?;
    trace.show().map_err(Failure::failed)
}

/// Reads the records of a task.
fn task(args: &InspectArgs, log: &LogArgs) -> Result<Shown, Failure> {
    let (stage, partition) = task_of(&args.id)?;
    if stage == Stage::Swarm {
        let what = "error: records of the swarm stage are sums that a live run sends itself; ask the running process, or inspect swarm ID";
        return Err(Failure::new(exit_code::USAGE, what));
    }
    let mut trace = TaskTrace::new(partition);
    Input::of(args, log)?.read(|record| trace.visit(record))?;
    trace.show().map_err(Failure::failed)
}
