//! The arguments of each command, with their help. Nothing here does anything.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use loopwarden_settings::LogFormat;

use crate::cli::output::OutputFormat;

/// Log lines, on standard error.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log lines (standard error)")]
pub struct LogArgs {
    /// How log lines look; auto: text on a terminal, JSON otherwise
    #[arg(long, global = true, value_parser = log_formats(), value_name = "FORM")]
    pub log_format: Option<LogFormat>,
    /// Filter of log lines, as info or warn,loopwarden::task=debug [env: LOOPWARDEN_LOG]
    #[arg(long, global = true, value_name = "FILTER")]
    pub log_level: Option<String>,
}

/// The words of a choice among the settings, as the value of a flag.
fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    let words = LogFormat::WORDS.iter().map(|(_, word, text)| PossibleValue::new(*word).help(text.trim().trim_end_matches('.')));
    PossibleValuesParser::new(words).map(|written| {
        LogFormat::WORDS.iter().find(|(_, word, _)| *word == written).map(|(format, ..)| *format).unwrap_or_default()
    })
}

/// Where settings come from.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Settings")]
pub struct ConfigArgs {
    /// Configuration file [env: LOOPWARDEN_CONFIG]
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

/// Form of `version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum VersionFormat {
    /// A line.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden run --data-dir ./lw
      one machine, no Kafka: prints how to send an event and wait for the command
  loopwarden run --data-dir ./lw-kafka --set kafka.bootstrap_servers=localhost:9092
      a fleet on Kafka, after: loopwarden topics create --set kafka.bootstrap_servers=localhost:9092

Signals: TERM and INT finish what is read, commit and exit with 0, a second one exits with 130;
USR1 does the same and leaves the consumer group (scaling in); HUP loads the policy and the log
filter again.")]
pub struct RunArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `demo`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden demo
  loopwarden demo --output ndjson | jq .reason.summary")]
pub struct DemoArgs {
    /// Form of the output: a table of what was found, or the commands themselves
    #[arg(long, value_enum, default_value_t)]
    pub output: DemoFormat,
}

/// Form of `demo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum DemoFormat {
    /// What was found, for people.
    #[default]
    Table,
    /// The commands, one JSON object a line.
    Ndjson,
}

/// `replay`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "\
loopwarden replay [OPTIONS] <FILE>...
       loopwarden replay [OPTIONS] --topic <NAME>")]
#[command(after_long_help = "\
Examples:
  loopwarden replay events.ndjson.zst
  loopwarden replay events.ndjson --policy mine.toml --set detectors.exact_repeat.threshold=5
  loopwarden replay events.ndjson --output ndjson | jq .message
  loopwarden replay events.ndjson --labels labels.jsonl --outcomes outcomes.jsonl
  loopwarden replay last-week.ndjson --fail-on block
  loopwarden replay ~/.claude/projects ~/.codex/sessions
  loopwarden replay --topic agents.tool-events.v1 --from 7d --set kafka.bootstrap_servers=localhost:9092
  loopwarden replay last-week.ndjson --output html > report.html
  loopwarden replay last-week.ndjson --policy mine.toml --against default

Files hold one event a line, or are logs of Claude Code, Codex or OpenHands as they lie on disk;
plain or compressed (gzip, zstd); - is standard input. The commands are the same, in the same
order, whatever --lanes says.")]
pub struct ReplayArgs {
    /// Files of events, one a line, or logs of agents; several are read one after the other, of a directory all below it
    #[arg(required_unless_present = "topic", conflicts_with = "topic", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Policy: the name of a shipped profile, or a file; without: default, and with --topic the setting policy
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// A key of the policy, as detectors.exact_repeat.threshold=5, or with --topic a setting of Kafka; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Threads; 0: one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub lanes: u32,
    /// Form of the output: table and csv count by detector, json and html tell all, ndjson gives the commands themselves
    #[arg(long, value_enum, default_value_t)]
    pub output: ReplayFormat,
    /// Labelled stretches to judge by: {session, label, first_event_index, last_event_index, kind}
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// Outcomes of sessions to judge by: {session, success}
    #[arg(long, value_name = "FILE")]
    pub outcomes: Option<PathBuf>,
    /// Exit with 3 if there is such a command, or a graver one; with --against: if an agent is told that was not told before
    #[arg(long, value_enum, value_name = "ACTION")]
    pub fail_on: Option<FailOn>,
    /// Stop at the first line that is no event
    #[arg(long)]
    pub strict: bool,
    /// A second policy, by name or file: tell what --policy would change
    #[arg(long, value_name = "NAME|FILE")]
    pub against: Option<String>,
    /// Write the report also to this file, as one HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// A range of a topic instead of files.
    #[command(flatten)]
    pub range: RangeArgs,
}

/// A range of a topic: read without a consumer group, nothing is committed or written.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A range of a Kafka topic")]
pub struct RangeArgs {
    /// Topic of events; brokers as in the configuration
    #[arg(long, value_name = "NAME")]
    pub topic: Option<String>,
    /// First record: earliest, an offset, a time (RFC 3339, or a date), or how long ago (7d, 90m); default: earliest
    #[arg(long, value_name = "WHERE", requires = "topic")]
    pub from: Option<String>,
    /// End, itself not read: as --from, or now, which is the default
    #[arg(long, value_name = "WHERE", requires = "topic")]
    pub to: Option<String>,
    /// Configuration file [env: LOOPWARDEN_CONFIG]
    #[arg(long, short, value_name = "FILE", conflicts_with = "files")]
    pub config: Option<PathBuf>,
}

/// Form of `replay` and `tune`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ReplayFormat {
    /// Aligned text, for people.
    #[default]
    Table,
    /// One JSON object a line.
    Ndjson,
    /// One JSON document.
    Json,
    /// Comma-separated values with a head.
    Csv,
    /// One page for a browser or a printer, without script and network.
    Html,
}

/// `replay --fail-on`; with --against, what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum FailOn {
    /// Any nudge or block.
    Nudge,
    /// Any block.
    Block,
}

/// `test`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden test config/examples/*.yaml
  loopwarden test cases.jsonl --filter poll

A case names a profile, what its policy changes, events, and what must be answered after which
event. config/examples has some to begin from. Exit code 3 when a case fails.")]
pub struct TestArgs {
    /// Files of cases: YAML documents (.yaml, .yml), or one JSON object a line
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only cases whose id (profile/name) contains this
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
}

/// `check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden check --config loopwarden.toml
  loopwarden check --config loopwarden.toml --connect
  loopwarden check --connect --kafka-debug broker,security")]
pub struct CheckArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Connect to the brokers: topics, partition counts, cleanup policies, permissions
    #[arg(long)]
    pub connect: bool,
}

/// `topics`.
#[derive(Debug, Subcommand)]
pub enum TopicsCommand {
    /// Print the topics and their settings
    #[command(after_long_help = "Example:\n  loopwarden topics print --format strimzi | kubectl apply -f -")]
    Print {
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
        /// Sizes.
        #[command(flatten)]
        size: TopicSize,
        /// Form: text for people, a list of Strimzi's KafkaTopic resources, or JSON
        #[arg(long, value_enum, default_value_t)]
        format: TopicFormat,
    },
    /// Create those that are missing; what exists stays as it is
    Create {
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
        /// Sizes.
        #[command(flatten)]
        size: TopicSize,
    },
    /// Compare the topics with what they should be
    Check {
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
    },
}

/// Sizes of topics.
#[derive(Debug, Clone, Copy, Args)]
pub struct TopicSize {
    /// Partitions of each topic; choose early: a session that moves to another partition begins anew
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub partitions: u32,
    /// Copies of each record; default: 3, or as many as there are brokers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub replication: Option<u16>,
}

/// Form of `topics print`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TopicFormat {
    /// For people.
    #[default]
    Plain,
    /// Strimzi's resources.
    Strimzi,
    /// One JSON document.
    Json,
}

/// `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Code, as E0102; without: the list of all
    pub code: Option<String>,
}

/// `config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a configuration file to begin from: every key with its default, unit and reason
    #[command(after_long_help = "Example:\n  loopwarden config init > loopwarden.toml")]
    Init,
    /// Print settings
    Print {
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
        /// Every value in force, where it came from, secrets redacted; without: only what is no default
        #[arg(long)]
        effective: bool,
        /// Form of the output
        #[arg(long, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Print the JSON Schema of a configuration file, or of a policy file
    #[command(after_long_help = "Example:\n  loopwarden config schema > loopwarden.schema.json")]
    Schema {
        /// Of what
        #[arg(value_enum, default_value_t)]
        of: SchemaOf,
    },
}

/// What `config schema` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaOf {
    /// The configuration file.
    #[default]
    Config,
    /// A policy file.
    Policy,
}

/// `schema`.
#[derive(Debug, Subcommand)]
pub enum SchemaCommand {
    /// Print one
    Print {
        /// Which; without: the names
        #[arg(value_enum)]
        name: Option<SchemaName>,
    },
}

/// The shipped schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaName {
    /// What agents send.
    #[value(name = "tool-event.v1", alias = "tool-event")]
    ToolEvent,
    /// What workers receive.
    #[value(name = "command.v1", alias = "command")]
    Command,
    /// What is in force for a subject.
    #[value(name = "session-state.v1", alias = "session-state")]
    SessionState,
    /// Topics and messages together.
    #[value(name = "asyncapi")]
    AsyncApi,
}

/// `healthcheck`.
#[derive(Debug, Args)]
pub struct HealthcheckArgs {
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Address to ask; default: the setting http.listen
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Longest wait for the answer
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
}

/// `inspect`.
#[derive(Debug, Subcommand)]
pub enum InspectCommand {
    /// One session: its events in order, findings, streaks, commands, what other thresholds would have said
    #[command(after_long_help = "\
Examples:
  loopwarden inspect session sess-42 --file events.ndjson.zst
  loopwarden inspect session sess-42 --topic agents.tool-events.v1 --from 2h --config loopwarden.toml
  loopwarden inspect session sess-42 --address localhost:9464
      what the running process holds of it: hashes and flags, no events")]
    Session(InspectArgs),
    /// One swarm: its calls added up, its members, its commands
    Swarm(InspectArgs),
    /// One task, as session:3: its records; of a running process also where it stands
    Task(InspectArgs),
}

/// What to inspect, and where its events are. Without --file and --topic a running process is asked.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Id of the session or swarm; of a task its stage and partition, as session:3
    #[arg(value_name = "ID")]
    pub id: String,
    /// Events, or logs of agents; may be repeated; of a directory all below it
    #[arg(long = "file", value_name = "FILE", conflicts_with = "topic")]
    pub files: Vec<PathBuf>,
    /// Address of the running process; default: the setting http.listen
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["files", "topic"])]
    pub address: Option<String>,
    /// Tenant of the session or swarm
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Policy: the name of a shipped profile, or a file; without: default, and with --topic the setting policy
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// A key of the policy, or with --topic a setting of Kafka; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// The newest so many events, or rows, are shown
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub limit: u32,
    /// Show what agents wrote and read too: beginnings of arguments, results and texts
    #[arg(long)]
    pub show_content: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t)]
    pub output: InspectFormat,
    /// A range of a topic instead of files.
    #[command(flatten)]
    pub range: RangeArgs,
}

/// Form of `inspect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum InspectFormat {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
}
