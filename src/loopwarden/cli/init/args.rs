//! Arguments of `init`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use loopwarden_settings::ProcessMode;

use crate::cli::{args::words, hook};

/// `init`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden init
      asks, shows what it would do, and does it
  loopwarden init --on laptop --agent claude-code --mode shadow --yes
      the same from a script
  loopwarden init --on kafka --bootstrap localhost:9092 --agent none --mode shadow --dry-run
      what it would write for a fleet

It replaces no file: one that is there and says something else is an error (E0209). The end tells
what was done, and one command for each thing that undoes it.")]
pub struct InitArgs {
    /// Where events come from: agents of this machine, or a topic of a fleet
    #[arg(long, value_enum, value_name = "WHERE")]
    pub on: Option<On>,
    /// Brokers, as localhost:9092, separated by commas; with --on kafka
    #[arg(long, value_name = "HOST:PORT")]
    pub bootstrap: Option<String>,
    /// An agent of this machine that is to ask before and after each call, or none; may be repeated
    #[arg(long = "agent", value_name = "NAME", value_parser = agents())]
    pub agents: Vec<String>,
    /// shadow: judge, and tell agents nothing; live: nudge and block
    #[arg(long, value_parser = words(ProcessMode::WORDS))]
    pub mode: Option<ProcessMode>,
    /// The configuration file that is written; default: loopwarden/loopwarden.toml in $XDG_CONFIG_HOME, else in ~/.config
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do it without asking whether it is right
    #[arg(long)]
    pub yes: bool,
    /// Where hooks are, and whom they ask.
    #[command(flatten)]
    pub place: hook::PlaceArgs,
}

/// Where events come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// Agents of this machine, over HTTP: no Kafka.
    Laptop,
    /// A topic of a fleet.
    Kafka,
}

/// What is to be set up.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) on: On,
    /// Brokers; empty without Kafka.
    pub(super) bootstrap: String,
    pub(super) agents: Vec<String>,
    pub(super) mode: ProcessMode,
}

/// What stands for no agent at all.
pub(super) const NONE: &str = "none";

fn agents() -> PossibleValuesParser {
    PossibleValuesParser::new(hook::agents().chain([NONE]).map(PossibleValue::new))
}
