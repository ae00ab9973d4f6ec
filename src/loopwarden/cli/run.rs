//! `run`: reads the settings and starts the server.

use crate::cli::args::{LogArgs, RunArgs};
use crate::cli::shared::setup;
use crate::failure::Outcome;
use crate::server;

/// Runs until told to stop.
///
/// # Errors
/// By fate: configuration, brokers, store, identity.
pub fn run(args: &RunArgs, log: &LogArgs) -> Outcome {
    let settings = || setup::load(&args.config, log);
    let loaded = settings()?;
    let control = setup::log_as_configured(&loaded.config)?;
    server::run(&loaded, &control, &settings, (&[], &|_| ()))
}
