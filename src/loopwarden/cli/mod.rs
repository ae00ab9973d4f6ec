//! The command line: arguments, a command each, exit codes.

mod answer;
pub mod args;
pub mod check;
pub mod command_line;
pub mod config;
pub mod demo;
pub mod doctor;
pub mod explain;
mod grow;
pub mod guard;
pub mod healthcheck;
pub mod hook;
pub mod init;
pub mod inspect;
pub mod learning;
pub mod map;
pub mod mcp_proxy;
pub mod operate;
pub mod replay;
pub mod reset;
pub mod run;
pub mod schema;
/// What several commands do alike: settings, one request, lines of a file, a range of a topic.
mod shared {
    pub(crate) mod act;
    pub(crate) mod advice;
    pub(crate) mod ask;
    pub(crate) mod lines;
    pub(crate) mod quiet;
    pub(crate) mod range;
    pub(crate) mod setup;
}
pub mod shell;
pub mod test;
pub mod topics;
pub mod watch;
pub mod webhook;

use std::ffi::OsString;

use clap::{ColorChoice, CommandFactory as _, FromArgMatches as _};

use crate::cli::command_line::{Command, CommandLine};
use crate::{cli::shared::advice, failure::Outcome};
use crate::{exit_code, output};

/// Runs a command line, program name first. Returns the exit code; whatever is to be said has been said.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let line = match parsed(&arguments) {
        Ok(line) => {
            output::settle(line.manner.manner());
            line
        }
        Err(error) => {
            let error = advice::advised(error, &arguments);
            // Help and version are answers, not errors; whether anybody reads them changes nothing.
            let _ = error.print();
            return if error.use_stderr() { exit_code::USAGE } else { exit_code::DONE };
        }
    };
    match dispatch(&line) {
        Ok(()) => exit_code::DONE,
        Err(failure) => {
            if let Some(message) = &failure.message {
                output::complain(message);
            }
            failure.exit
        }
    }
}

/// The command line. What clap itself says, help and errors, has colours as `--color` wants it, which is looked for before anything is known.
fn parsed(arguments: &[OsString]) -> Result<CommandLine, clap::Error> {
    let words = || arguments.iter().filter_map(|argument| argument.to_str());
    let given = words().find_map(|word| word.strip_prefix("--color="));
    let given = given.or_else(|| words().zip(words().skip(1)).find_map(|(flag, value)| (flag == "--color").then_some(value)));
    let colour = match given {
        Some("always") => ColorChoice::Always,
        Some("never") => ColorChoice::Never,
        _ => ColorChoice::Auto,
    };
    let matches = CommandLine::command().color(colour).try_get_matches_from(arguments)?;
    CommandLine::from_arg_matches(&matches)
}

fn dispatch(line: &CommandLine) -> Outcome {
    let log = &line.log;
    match &line.command {
        Command::Run(args) => run::run(args, log),
        Command::Guard(args) => guard::run(args, log),
        Command::Init(args) => init::run(args),
        Command::Demo(args) => demo::run(args, log),
        Command::Replay(args) => replay::run(args, log),
        Command::Inspect { command } => inspect::run(command, log),
        Command::Reset { command } => reset::run(command, log),
        Command::Stop(args) => operate::stop(args, log),
        Command::Release(args) => operate::release(args, log),
        Command::Answer(args) => answer::run(args, log),
        Command::Learn(args) => learning::learn::run(args, log),
        Command::Fit(args) => learning::fit::run(args, log),
        Command::Test(args) => test::run(args),
        Command::Check(args) => check::run(args, log),
        Command::Doctor(args) => doctor::run(args, log),
        Command::Tail(args) => watch::tail::run(args, log),
        Command::Sessions(args) => watch::sessions::run(args, log),
        Command::Topics { command } => topics::run(command, log),
        Command::Webhook { command } => webhook::run(command, log),
        Command::Map(args) => map::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Config { command } => config::run(command, log),
        Command::Schema { command } => schema::run(command),
        Command::Hook { command } => hook::run(command),
        Command::McpProxy(args) => mcp_proxy::run(args),
        Command::Healthcheck(args) => healthcheck::run(args, log),
        Command::Completions { shell } => shell::completions(*shell),
        Command::Man => shell::man(),
        Command::Version { output } => shell::version(*output),
    }
}
