//! Arguments of the commands about a running process, its settings and topics.

use clap::{Args, Subcommand, ValueEnum};

use super::{ConfigArgs, operate::WhereArgs};
use crate::output::OutputFormat;

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PlainFormat {
    /// Lines for people.
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
    /// A service of launchd: end with 0 where another start would end in the same way
    #[arg(long, hide = true)]
    pub launchd: bool,
}

/// `demo`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden demo
  loopwarden demo --output ndjson | jq .reason.summary")]
pub struct DemoArgs {
    /// Form of the output: a table of what was found, or the commands themselves
    #[arg(long, short, value_enum, default_value_t)]
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
        #[arg(long, short = 'o', visible_alias = "output", value_enum, default_value_t)]
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
        /// Form of the output
        #[arg(long, short, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Give the input more partitions, and move each session to the partition of its key; may be interrupted and run again
    Grow(GrowArgs),
    /// Compare the topics with what they should be
    Check {
        /// Settings.
        #[command(flatten)]
        config: ConfigArgs,
        /// Form of the output
        #[arg(long, short, value_enum, default_value_t)]
        output: PlainFormat,
    },
}

/// `topics grow`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Example:
  loopwarden topics grow --partitions 48 --config loopwarden.toml

Before: stop all producers, let the processes read their input to its end, stop them with USR1.
After: start the processes, then the producers.")]
pub struct GrowArgs {
    /// Partitions of the input and of its changelog afterwards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub partitions: u32,
    /// Go on although records of sessions that move were not read: they are judged apart from what came before
    #[arg(long)]
    pub accept_late: bool,
    /// Longest wait for the group to be empty: processes that were killed are members until their sessions and rebalances are over
    #[arg(long, value_name = "MS", default_value_t = 90_000, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub timeout_ms: u64,
    /// Where settings come from.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Sizes of topics.
#[derive(Debug, Clone, Copy, Args)]
pub struct TopicSize {
    /// Partitions of each topic
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
    /// Code, as E0102, name of a detector, as similar_repeat, or key of a policy or the configuration, as budget.agents; without: the list of
    /// codes and detectors
    #[arg(value_name = "CODE|DETECTOR|KEY")]
    pub code: Option<String>,
    /// Form of the output
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
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
        #[arg(long, short, value_enum, default_value_t)]
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
    #[arg(long, visible_alias = "url", value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Longest wait for the answer
    #[arg(long, value_name = "MS", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
}

/// `reset`.
#[derive(Debug, Subcommand)]
pub enum ResetCommand {
    /// One session, or one of its agents: sends the event `reset`, to the topic of events or to the running process
    #[command(after_long_help = "\
Examples:
  loopwarden reset session sess-42 --config loopwarden.toml
  loopwarden reset session sess-42 --agent fixer --set kafka.bootstrap_servers=localhost:9092
  loopwarden reset session sess-42 --address localhost:9464

Blocks in force are lifted with `unblock`; what was counted is forgotten. A replay sees it too.")]
    Session(ResetArgs),
    /// One swarm: what was counted for it, and its blocks
    Swarm(ResetArgs),
    /// One task, as session:3, whose changelog and group do not fit together any more (E0502, E0105): begins anew without its state
    Task(ResetTaskArgs),
}

/// Whose blocks are to be lifted. With Kafka the event goes to the topic of events; else to the running process.
#[derive(Debug, Args)]
pub struct ResetArgs {
    /// Id of the session or swarm
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only this agent of the session
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Its tenant
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Where the reset is sent to.
    #[command(flatten)]
    pub place: WhereArgs,
}

/// `reset task`.
#[derive(Debug, Args)]
pub struct ResetTaskArgs {
    /// Stage and partition, as session:3
    #[arg(value_name = "TASK")]
    pub id: String,
    /// Do it; without, only what would be lost is told
    #[arg(long)]
    pub yes: bool,
    /// Longest wait for the group to be empty: processes that were killed are members until their sessions and rebalances are over
    #[arg(long, value_name = "MS", default_value_t = 90_000, value_parser = clap::value_parser!(u64).range(0..=600_000))]
    pub timeout_ms: u64,
    /// Where settings come from.
    #[command(flatten)]
    pub config: ConfigArgs,
}
