//! The whole command line: its commands, and the help that goes with them.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::cli::args::{
    AnswerArgs, CheckArgs, ConfigCommand, DemoArgs, ExplainArgs, FitArgs, HealthcheckArgs, InspectCommand, LearnArgs, LogArgs,
    MannerArgs, MapArgs, PlainFormat, ReleaseArgs, ReplayArgs, ResetCommand, RunArgs, SchemaCommand, StopArgs, TestArgs,
    TopicsCommand,
};
use crate::cli::watch::{SessionsArgs, TailArgs};
use crate::{
    cli::doctor::DoctorArgs, cli::guard::GuardArgs, cli::hook::HookCommand, cli::init::InitArgs, cli::mcp_proxy::McpProxyArgs,
    cli::webhook::WebhookCommand,
};

const EXAMPLES: &str = "\
Examples:
  loopwarden init                                    set it up: three questions
  loopwarden demo                                    see it work: no Kafka, no network
  loopwarden run --data-dir ./lw                     one machine: events and commands over HTTP
  loopwarden replay events.ndjson                    what would it have said to recorded events?
  loopwarden check --config loopwarden.toml          mistakes of a configuration, then of its policy
  loopwarden doctor                                  can what comes in be judged, and what is to be switched on?

Exit codes: 0 done, 1 failed, 2 usage, 3 the answer is no, 69 broker, topic or permission,
70 poisoned task, 74 store, 75 fenced, 78 configuration or policy, 130 second signal.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "loopwarden",
    version,
    about = "Finds AI agents that go round in circles, and says so exactly once",
    long_about = "Finds AI agents that go round in circles, and says so exactly once.\n\n\
        Reads the tool-call events of a fleet of agents from Kafka, or over HTTP on a single machine, and publishes \
        what to do about those that loop: a nudge for the model, or a block for a call.",
    after_long_help = EXAMPLES,
    max_term_width = 120,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct CommandLine {
    /// How it speaks.
    #[command(flatten)]
    pub manner: MannerArgs,
    /// Log lines.
    #[command(flatten)]
    pub log: LogArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// A command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read events and publish commands, until told to stop
    Run(RunArgs),
    /// Answer agents that ask before and after each call: may it run, and what should the model read?
    Guard(GuardArgs),
    /// Set it up on this machine: three questions, then settings, hooks and the service
    Init(InitArgs),
    /// Show it at work on a sample fleet: no Kafka, no network, nothing kept
    Demo(DemoArgs),
    /// Tell what would have been said to recorded events
    Replay(ReplayArgs),
    /// Show one session, swarm or task: what was seen at each event, and why a command was or was not sent
    Inspect {
        /// What to look at.
        #[command(subcommand)]
        command: InspectCommand,
    },
    /// Lift the blocks of a session or swarm and forget its loops; begin a task anew
    Reset {
        /// What to reset.
        #[command(subcommand)]
        command: ResetCommand,
    },
    /// Stop agents at once, for a while: every call of theirs is refused, wherever a guard answers
    #[command(after_long_help = "\
Examples:
  loopwarden stop --session sess-42 --reason \"deletes files\" --for 30m
  loopwarden stop --tenant acme --reason \"runaway fan-out\" --for 2h --dry-run
  loopwarden stop --all --reason \"incident 7\" --for 15m --yes --config loopwarden.toml

What detectors have placed stays as it is beneath: `release`, or the end, restores exactly that.")]
    Stop(StopArgs),
    /// Let agents go on that were stopped: what was in force before the stop is again
    Release(ReleaseArgs),
    /// Answer the commands of an episode: right, a false alarm, or allowed for a while
    Answer(AnswerArgs),
    /// Move the weights of evidence by what people answered, and write a policy if that is better
    Learn(LearnArgs),
    /// Fit the weights of evidence on labelled sessions, and write a policy
    Fit(FitArgs),
    /// Run policy cases: events, and what must be answered
    Test(TestArgs),
    /// Look for mistakes in configuration and policy; with --connect, at the brokers too
    ///
    /// Shows all mistakes of the configuration at once; once there are none, that of the log filter, then those of policy, secret
    /// files and Kafka settings together.
    Check(CheckArgs),
    /// Ask a running process whether what comes in can be judged, and say what to do where it cannot
    Doctor(DoctorArgs),
    /// Show what agents are told as it comes, one line each, from a running process
    Tail(TailArgs),
    /// List sessions of a running process by what they cost, call or loop: all, or those that loop, are blocked or stopped; with --watch
    /// again and again
    Sessions(SessionsArgs),
    /// Print, create or compare the topics
    Topics {
        /// What to do with them.
        #[command(subcommand)]
        command: TopicsCommand,
    },
    /// Try what receives commands at a URL
    Webhook {
        /// What to do with it.
        #[command(subcommand)]
        command: WebhookCommand,
    },
    /// Try a mapping of foreign JSON on its records
    Map(MapArgs),
    /// Print the page of an error code, or what a detector looks for
    Explain(ExplainArgs),
    /// Print settings
    Config {
        /// What to print.
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print the schemas of events, commands and state rows
    Schema {
        /// What to print.
        #[command(subcommand)]
        command: SchemaCommand,
    },
    /// Let a coding agent on this machine ask loopwarden before and after each call
    Hook {
        /// What to do with its hooks.
        #[command(subcommand)]
        command: HookCommand,
    },
    /// Stand between an MCP client and a server, and ask loopwarden before and after each call of a tool
    McpProxy(McpProxyArgs),
    /// Ask a running process whether it is ready; for containers
    Healthcheck(HealthcheckArgs),
    /// Print completions for a shell
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page (roff)
    Man,
    /// Print the version
    Version {
        /// Form of the output
        #[arg(long, short, value_enum, default_value_t)]
        output: PlainFormat,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        CommandLine::command().debug_assert();
    }
}
