//! Arguments of what operators do: `stop`, `release`, `answer`.

use clap::{ArgGroup, Args};

use crate::cli::args::ConfigArgs;

/// Whom an operator means: one session, agent, tree or swarm; without any of them the tenant; or everybody.
#[derive(Debug, Args)]
pub struct WhomArgs {
    /// One session, with all of its agents
    #[arg(long, value_name = "ID", conflicts_with_all = ["agent", "tree", "swarm", "all"])]
    pub session: Option<String>,
    /// Agents of this id, in every session
    #[arg(long, value_name = "NAME", conflicts_with_all = ["tree", "swarm", "all"])]
    pub agent: Option<String>,
    /// An agent and all that it started, by the id of the root
    #[arg(long, value_name = "ID", conflicts_with_all = ["swarm", "all"])]
    pub tree: Option<String>,
    /// Every session of a swarm
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    pub swarm: Option<String>,
    /// Every session of the tenant; beside one of the above, the tenant that it belongs to
    #[arg(long, value_name = "NAME", conflicts_with = "all", required_unless_present_any = ["session", "agent", "tree", "swarm", "all"])]
    pub tenant: Option<String>,
    /// Everybody; a stop asks for --yes
    #[arg(long)]
    pub all: bool,
}

/// Where an act goes: to a topic, or to a process.
#[derive(Debug, Args)]
pub struct WhereArgs {
    /// Address of the running process, in embedded mode; default: the setting http.listen
    #[arg(long, visible_alias = "url", value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Where settings come from, those of Kafka among them.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `stop`: whom, why and for how long.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Whom the stop is to bind.
    #[command(flatten)]
    pub whom: WhomArgs,
    /// Why, for people and for the agents: one line
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    pub reason: Option<String>,
    /// How long, as 90s, 30m, 2h, at most 7d; it ends by itself then
    #[arg(long = "for", value_name = "SPAN", required_unless_present = "dry_run")]
    pub span: Option<String>,
    /// Whoever was refused and can ask no guard any more refuses on by itself, until the end
    #[arg(long)]
    pub fail_closed: bool,
    /// Only count the agents that it would stop
    #[arg(long)]
    pub dry_run: bool,
    /// With --all: everybody is meant indeed
    #[arg(long)]
    pub yes: bool,
    /// Where the stop is sent to.
    #[command(flatten)]
    pub place: WhereArgs,
}

/// `release`: whom, as the stop had it.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// Whom: as the stop was given.
    #[command(flatten)]
    pub whom: WhomArgs,
    /// Why, for people: one line
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Where the release is sent to.
    #[command(flatten)]
    pub place: WhereArgs,
}

/// `answer`: to which episode, and what.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("judged").required(true).args(["right", "false_alarm", "span"])))]
pub struct AnswerArgs {
    /// The episode, as the commands name it
    pub episode: String,
    /// The session that it is of
    #[arg(long, value_name = "ID")]
    pub session: String,
    /// Its agent, where the session has several
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The tenant of the session
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// It is a loop: kept as a label, and nothing else changes
    #[arg(long)]
    pub right: bool,
    /// It is none: the loop is let be for the rest of its session
    #[arg(long)]
    pub false_alarm: bool,
    /// The loop is let be for so long, as 90s, 30m, 2h, at most 7d
    #[arg(long = "allow", value_name = "SPAN")]
    pub span: Option<String>,
    /// Where the answer is sent to.
    #[command(flatten)]
    pub place: WhereArgs,
}
