//! Arguments of the commands about recorded events: `replay`, `test`, `map`, `inspect`, `fit`, `learn`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// `replay`.
#[derive(Debug, Clone, Default, Args)]
#[command(override_usage = "\
loopwarden replay [OPTIONS] <FILE>...
       loopwarden replay [OPTIONS] --topic <NAME>
       loopwarden replay --follow [--policy <NAME|FILE>] [--set <KEY=VALUE>] <DIR>...")]
#[command(after_long_help = "\
Examples:
  loopwarden replay events.ndjson.zst
  loopwarden replay events.ndjson --policy mine.toml --set score.nudge_at=3.5
  loopwarden replay events.ndjson --output ndjson | jq .message
  loopwarden replay events.ndjson --labels labels.jsonl --outcomes outcomes.jsonl
  loopwarden replay last-week.ndjson --fail-on block
  loopwarden replay ~/.claude/projects ~/.codex/sessions
  loopwarden replay --follow ~/.claude/projects ~/.codex/sessions
  loopwarden replay --topic agents.tool-events.v1 --from 7d --set kafka.bootstrap_servers=localhost:9092
  loopwarden replay last-week.ndjson --output html > report.html
  loopwarden replay last-week.ndjson --policy mine.toml --against default
  loopwarden replay events.ndjson --labels labels.jsonl --sweep score.nudge_at=2.5,2.85,3.5

Files hold one event a line, or are logs of Claude Code, Cline, Codex, Gemini CLI, OpenHands or Qwen
Code as they lie on disk, or exports of goose and opencode; plain or compressed (gzip, zstd); - is standard input.
The commands are the same, in the same order, whatever --lanes says.")]
#[command(group = clap::ArgGroup::new("known").args(["labels", "outcomes"]).multiple(true))]
pub struct ReplayArgs {
    /// Files of events, one a line, or logs of agents; several are read one after the other, of a directory all below it
    #[arg(required_unless_present = "topic", conflicts_with = "topic", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Read on what agents write below these directories, and show on the page what they would have been told
    #[arg(long, conflicts_with_all = ["topic", "lanes", "output", "labels", "outcomes", "fail_on", "strict", "against", "sweep", "report"])]
    pub follow: bool,
    /// Policy: the name of a shipped profile, or a file; without: default, and with --topic or --follow the setting policy
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// A key of the policy, as score.nudge_at=3.5, or with --topic a setting of Kafka, with --follow any setting of run; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Threads; 0: one per core
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub lanes: u32,
    /// Form of the output: table and csv count by detector, json and html tell all, ndjson gives the commands themselves
    #[arg(long, short, value_enum, default_value_t)]
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
    /// A key of the policy and values of it: judge every combination, 256 at most, by labels and outcomes; may be repeated
    #[arg(long, value_name = "KEY=VALUE,…", requires = "known", conflicts_with_all = ["against", "fail_on", "strict"])]
    pub sweep: Vec<String>,
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
    /// Configuration file [env: LOOPWARDEN_CONFIG]; default: the one that init writes, else /etc/loopwarden/loopwarden.toml
    #[arg(long, short, value_name = "FILE", conflicts_with = "files")]
    pub config: Option<PathBuf>,
}

/// Form of `replay`.
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

/// `map`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden map --try records.ndjson --mapping map.toml
  loopwarden map --apply records.ndjson --mapping map.toml | loopwarden replay -

Files hold one JSON record a line; - is standard input. Exit code 3 when a record is refused.")]
#[command(group = clap::ArgGroup::new("what").args(["trial", "apply"]).required(true))]
pub struct MapArgs {
    /// Show each record before and after the mapping, and what is missing
    #[arg(long = "try", value_name = "FILE")]
    pub trial: Option<PathBuf>,
    /// Print the events alone, one a line
    #[arg(long, value_name = "FILE")]
    pub apply: Option<PathBuf>,
    /// The mapping, a TOML file
    #[arg(long, value_name = "FILE")]
    pub mapping: PathBuf,
    /// Records to show; all are counted
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub records: usize,
}

/// `inspect`.
#[derive(Debug, Subcommand)]
pub enum InspectCommand {
    /// One session: its events in order, findings, streaks, commands
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
    #[arg(long, visible_alias = "url", value_name = "HOST:PORT", conflicts_with_all = ["files", "topic"])]
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
    #[arg(long, short, value_enum, default_value_t)]
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

/// `fit`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden fit events.ndjson --labels labels.jsonl --outcomes outcomes.jsonl
  loopwarden fit one.ndjson two.ndjson --labels one.jsonl --labels two.jsonl --out mine.toml
  loopwarden replay events.ndjson --policy default --against mine.toml

Prints the fitted weight of each fact, and for each sum of a nudge how many loops it tells and whom
it disturbs. Fifty labelled sessions of a fleet make a policy of its own. Exit code 3: too few are known.")]
#[command(group = clap::ArgGroup::new("fitted").args(["labels", "outcomes"]).required(true).multiple(true))]
pub struct FitArgs {
    /// Files of events, one a line; several are read one after the other
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Policy whose facts are weighed: the name of a shipped profile, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub policy: String,
    /// Labelled stretches: {session, label, first_event_index, last_event_index, kind}; may be repeated
    #[arg(long, value_name = "FILE")]
    pub labels: Vec<PathBuf>,
    /// Outcomes of sessions: {session, success}; may be repeated
    #[arg(long, value_name = "FILE")]
    pub outcomes: Vec<PathBuf>,
    /// Write a policy file with the fitted weights and the proposed bounds
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Arguments of `learn`: a policy from answers.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden learn events.ndjson --policy mine.toml --write learned.toml
  loopwarden learn --since 7d --config loopwarden.toml --quorum 2 --write learned.toml
  loopwarden replay events.ndjson --policy learned.toml --against mine.toml
  loopwarden learn events.ndjson --policy mine.toml --print > labels.jsonl

Moves weights and bounds a step, by what people answered, and judges them on sessions they were not
fitted on. Writes a policy only where that is better; nothing is put in force. Exit code 3: not better.

The events are judged again, under the policy of the live run: an answer names an episode that this
publishes. What becomes no label is counted on standard error.")]
#[command(group = clap::ArgGroup::new("input").args(["files", "topic", "since"]).required(true).multiple(true))]
pub struct LearnArgs {
    /// Files of events with the answers among them, one a line; several are read one after the other
    #[arg(conflicts_with = "topic", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Only events since then: how long ago (7d, 90m), or a time; without files, of the topic of the configuration
    #[arg(long, value_name = "WHEN", conflicts_with = "from")]
    pub since: Option<String>,
    /// Policy of the live run: the name of a shipped profile, or a file; without: default, and with a topic the setting policy
    #[arg(long, value_name = "NAME|FILE")]
    pub policy: Option<String>,
    /// A key of the policy, or with a topic a setting of Kafka; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// An answer counts where so many different actors agree, and more than contradict them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub quorum: u32,
    /// Names of actors in a topic count: nobody but loopwarden and operators may write to it. In files they always count
    #[arg(long, conflicts_with = "files")]
    pub trust_names: bool,
    /// Of the agents that nobody calls a false alarm, so many in a hundred may get no command any more
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub spare: u32,
    /// Outcomes of sessions: {session, success}; may be repeated
    #[arg(long, value_name = "FILE")]
    pub outcomes: Vec<PathBuf>,
    /// Print the answers as labels, one a line as replay and fit read them, and learn nothing
    #[arg(long, conflicts_with_all = ["spare", "outcomes", "write"])]
    pub print: bool,
    /// Write the policy to this file, if it is better
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Form of the output, for people or programs
    #[arg(long, short, value_enum, default_value_t)]
    pub output: InspectFormat,
    /// A range of a topic instead of files.
    #[command(flatten)]
    pub range: RangeArgs,
}
