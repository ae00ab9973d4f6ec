//! `run`: reads the settings and starts the server.

use crate::cli::args::{LogArgs, RunArgs};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::setup, exit_code, server};

/// Runs until told to stop.
///
/// # Errors
/// By fate: configuration, brokers, store, identity.
pub fn run(args: &RunArgs, log: &LogArgs) -> Outcome {
    let outcome = serve(args, log);
    if args.launchd { outcome.map_err(for_launchd) } else { outcome }
}

/// launchd starts again whatever has failed. After these codes, which the unit of systemd names too, another start would end in the same way:
/// what is wrong is written, and the end is one without failure.
fn for_launchd(failure: Failure) -> Failure {
    let is_final = [exit_code::USAGE, exit_code::FENCED, exit_code::CONFIG].contains(&failure.exit);
    if is_final { Failure { exit: exit_code::DONE, ..failure } } else { failure }
}

fn serve(args: &RunArgs, log: &LogArgs) -> Outcome {
    let settings = || setup::load(&args.config, log);
    let loaded = settings()?;
    let control = setup::log_as_configured(&loaded.config)?;
    server::run(&loaded, &control, &settings, (&[], &|_| ()))
}
