//! Arguments of `doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::{ConfigArgs, PlainFormat};

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden doctor
      asks the process on this machine
  loopwarden doctor --address watch-0:9464 --set http.token_file=token
  loopwarden doctor --try exports.ndjson
      judges recorded exports of OpenTelemetry in JSON, CloudEvents or events, one a line

Exit codes: 0 nothing to do, 3 something is to be done, 1 the process does not answer.")]
pub struct DoctorArgs {
    /// Address of the running process; default: the setting http.listen
    #[arg(long, visible_alias = "url", value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Judge what a file holds instead, one record a line; - is standard input
    #[arg(long = "try", value_name = "FILE", conflicts_with = "address")]
    pub recorded: Option<PathBuf>,
    /// The mapping of JSON in this file, a TOML file
    #[arg(long, value_name = "FILE", requires = "recorded")]
    pub mapping: Option<PathBuf>,
    /// Longest wait for an answer
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
}
