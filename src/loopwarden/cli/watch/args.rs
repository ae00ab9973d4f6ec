//! Arguments of `tail` and `top`.

use clap::{Args, ValueEnum};

use crate::cli::args::{ConfigArgs, PlainFormat};

/// Which process.
#[derive(Debug, Args)]
pub struct ProcessArgs {
    /// Address of the running process; default: the setting http.listen
    #[arg(long, visible_alias = "url", value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Settings.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `tail`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden tail
      what agents are told from now on; in shadow mode, what they would be told
  loopwarden tail --since 1h --action block
  loopwarden tail --since earliest --once --output json | jq -r .message

A process with a log of its own has the commands of the last days; one on Kafka those since its
start, the last 200 of them. The topic of commands has all.")]
pub struct TailArgs {
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// Only about this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,
    /// Only these
    #[arg(long, value_enum)]
    pub action: Option<Action>,
    /// Only of this mode
    #[arg(long, value_enum)]
    pub mode: Option<CommandMode>,
    /// Begin there: earliest, a place, a time (RFC 3339, or a date), or how long ago (1h, 7d); default: now, with --once earliest
    #[arg(long, value_name = "WHERE")]
    pub since: Option<String>,
    /// End when all is read that is there now
    #[arg(long)]
    pub once: bool,
    /// Form of the output: a line each for people, or the commands themselves, one JSON object a line
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
    /// Which process.
    #[command(flatten)]
    pub process: ProcessArgs,
}

/// `tail --action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// A text for the model.
    Nudge,
    /// Calls that are refused.
    Block,
    /// A block that is lifted.
    Unblock,
}

/// `tail --mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CommandMode {
    /// To be obeyed.
    Live,
    /// To look at.
    Shadow,
}

impl Action {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Nudge => "nudge",
            Self::Block => "block",
            Self::Unblock => "unblock",
        }
    }
}

impl CommandMode {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Shadow => "shadow",
        }
    }
}

/// `top`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden top
  loopwarden top --once --output json

The dearest come first: by cost, then tokens, then calls, then the calls of the loop. Cost and
tokens are known where the policy counts them (detectors.budget) and events have a usage.")]
pub struct TopArgs {
    /// Print one table and end; so it does where standard output is no terminal
    #[arg(long)]
    pub once: bool,
    /// Form of the output; json: one document, once
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
    /// Which process.
    #[command(flatten)]
    pub process: ProcessArgs,
}
