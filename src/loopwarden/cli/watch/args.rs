//! Arguments of `tail` and `sessions`.

use clap::{Args, value_parser};
use loopwarden_core::engine::Action;
use loopwarden_lane::{SessionOrder, SessionState};
use loopwarden_settings::ProcessMode;

use crate::cli::args::{ConfigArgs, PlainFormat, words};

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
  loopwarden tail --since 7d --once --acts
      who stopped, released, reset or answered, whom, and why
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
    /// Only these: texts for the model, refused calls, blocks that are lifted
    #[arg(long, value_parser = Action::ALL.map(Action::as_str))]
    pub action: Option<String>,
    /// Only of this mode: to be obeyed, or to look at
    #[arg(long, value_parser = words(ProcessMode::WORDS))]
    pub mode: Option<ProcessMode>,
    /// Only what people did: stops, releases, resets, answers; each with who
    #[arg(long)]
    pub acts: bool,
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

/// `sessions`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  loopwarden sessions --looping --sort cost --tenant acme
  loopwarden sessions --looping --watch
  loopwarden sessions --stopped
  loopwarden sessions --sort loop --limit 10 --output json | jq -r '.sessions[].session_id'

One row for each agent of a session, as of the last commit. A process looks at 200,000 of them, and
the answer says where there are others. With Kafka each process knows those of its own partitions.")]
pub struct SessionsArgs {
    /// Only those that loop: nudged, blocked, or would be in shadow mode or a control arm
    #[arg(long, conflicts_with_all = ["blocked", "stopped"])]
    pub looping: bool,
    /// Only those that are blocked, or would be
    #[arg(long, conflicts_with = "stopped")]
    pub blocked: bool,
    /// Only those that an operator stops
    #[arg(long)]
    pub stopped: bool,
    /// Only of this tenant; an empty name: of none
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// What comes first: the dearest, most tokens or calls, those that loop longest, or those that were heard of last
    #[arg(long, default_value = SessionOrder::default().as_str(), value_parser = words(SessionOrder::WORDS))]
    pub sort: SessionOrder,
    /// Rows
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Look again every two seconds; where standard output is no terminal, once
    #[arg(long, conflicts_with = "output")]
    pub watch: bool,
    /// Form of the output: a table, or the answer of the process as it is
    #[arg(long, short, value_enum, default_value_t)]
    pub output: PlainFormat,
    /// Which process.
    #[command(flatten)]
    pub process: ProcessArgs,
}

impl SessionsArgs {
    /// The state that is wanted.
    pub(super) const fn state(&self) -> SessionState {
        match (self.looping, self.blocked, self.stopped) {
            (true, ..) => SessionState::Looping,
            (_, true, _) => SessionState::Blocked,
            (_, _, true) => SessionState::Stopped,
            _ => SessionState::All,
        }
    }
}
