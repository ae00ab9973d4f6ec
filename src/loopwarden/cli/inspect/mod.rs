//! `inspect`: one session, swarm or task. From files or a topic it is decided anew, on the production machines; a running process is
//! asked for what it holds.
//!
//! Names, hashes, numbers; nothing of what agents wrote or read, unless that is asked for.

mod live;
mod note;
mod session;
mod shown;
mod source;
mod swarm;
mod task;
mod thresholds;
mod why;

use shown::{Part, Shown};

use crate::cli::args::{InspectArgs, InspectCommand, InspectFormat, LogArgs};
use crate::cli::setup;
use crate::exit_code;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, OutputFormat};

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
        InspectCommand::Session(_) => session::inspect(args, log),
        InspectCommand::Swarm(_) => swarm::inspect(args, log),
        InspectCommand::Task(_) => task::inspect(args, log),
    }?;
    print(args, &shown)
}

fn print(args: &InspectArgs, shown: &Shown) -> Outcome {
    let mut out = Output::stdout();
    match args.output {
        InspectFormat::Json => out.line(format!("{:#}", shown.json))?,
        InspectFormat::Table => {
            for part in &shown.parts {
                match part {
                    Part::Text(text) => out.line(text)?,
                    Part::Table(table) => out.table(table, OutputFormat::Table)?,
                }
            }
        }
    }
    Ok(out.flush()?)
}
