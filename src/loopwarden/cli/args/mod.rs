//! The arguments of each command, with their help. Nothing here does anything.

mod lab;
mod operate;
mod server;

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
pub use lab::{
    FailOn, FitArgs, InspectArgs, InspectCommand, InspectFormat, LearnArgs, MapArgs, RangeArgs, ReplayArgs, ReplayFormat,
    TestArgs,
};
use loopwarden_settings::LogFormat;
pub use operate::{AnswerArgs, ReleaseArgs, StopArgs, WhereArgs, WhomArgs};
pub use server::{
    CheckArgs, ConfigCommand, DemoArgs, DemoFormat, ExplainArgs, GrowArgs, HealthcheckArgs, PlainFormat, ResetArgs, ResetCommand,
    ResetTaskArgs, RunArgs, SchemaCommand, SchemaName, SchemaOf, TopicFormat, TopicSize, TopicsCommand,
};

use crate::output::{ColourWhen, Manner};

/// What log lines are written where nothing is said of them, of a command that is quiet.
pub const QUIET_LOG: &str = "error";

/// Log lines, on standard error.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log lines (standard error)")]
pub struct LogArgs {
    /// How log lines look; auto: text on a terminal, JSON otherwise
    #[arg(long, global = true, value_parser = words(LogFormat::WORDS), value_name = "FORM")]
    pub log_format: Option<LogFormat>,
    /// Filter of log lines, as info or warn,loopwarden::task=debug [env: LOOPWARDEN_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log_level: Option<String>,
}

/// How the whole command speaks.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "What is said")]
pub struct MannerArgs {
    /// Say nothing on standard error but errors: no notices, no warnings, no progress; log lines of errors alone
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Colours and bold text; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColourWhen,
}

impl MannerArgs {
    /// The same, for the output.
    pub const fn manner(self) -> Manner {
        Manner { is_quiet: self.quiet, colour: self.color }
    }
}

/// A choice among words, as the value of a flag.
pub(crate) fn words<T: Copy + Default + Send + Sync + 'static>(
    known: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let of = |written: &str| known.iter().find(|(word, _)| *word == written).map(|(_, value)| *value).unwrap_or_default();
    PossibleValuesParser::new(known.iter().map(|(word, _)| *word)).map(move |written| of(&written))
}

/// Where settings come from.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub struct ConfigArgs {
    /// Configuration file [env: LOOPWARDEN_CONFIG]; default: the one that init writes, else /etc/loopwarden/loopwarden.toml
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Any setting, as kafka.bootstrap_servers=localhost:9092; may be repeated, the last one counts
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Directory of the state: the setting data_dir
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// What the Kafka client shall tell of itself, as broker,security; support asks for it first
    #[arg(long, value_name = "CONTEXTS")]
    pub kafka_debug: Option<String>,
}
