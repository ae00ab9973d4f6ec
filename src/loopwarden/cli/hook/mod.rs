//! `hook`: coding agents ask loopwarden before and after each call. Installs that into an agent's own settings, looks, takes it away.

mod answering;
mod connect;
mod edit;
mod files;
mod manager;
mod program;
pub(super) mod service;
mod setting;
mod status;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use loopwarden_sources::install::Mode;
pub(super) use loopwarden_sources::install::quoted;
use loopwarden_sources::{agent, installable};

pub(super) use crate::cli::hook::answering::Answering;
use crate::cli::hook::connect::carry_out;
pub(super) use crate::cli::hook::connect::{Connection, found, todo};
pub(super) use crate::cli::hook::manager::{HERE, SettingsFrom, UserFolders};
pub use crate::cli::hook::setting::PlaceArgs;
use crate::cli::hook::setting::{Setting, failed};
pub(super) use crate::cli::hook::setting::{agents, folders, usage};
use crate::{cli::hook::status::StatusArgs, failure::Outcome, output::Output};

/// `hook`.
#[derive(Debug, Subcommand)]
pub enum HookCommand {
    /// Write the hooks into the agent's settings; what else stands there stays
    #[command(after_long_help = "\
Examples:
  loopwarden hook install claude-code --local   hooks, and loopwarden as a service of yours
  loopwarden hook install codex                 then open /hooks in Codex and trust them
  loopwarden hook install gemini --dry-run      what would be written

Without a loopwarden that answers, agents work as if nothing was installed.")]
    Install(InstallArgs),
    /// Tell whether hooks are there, which version the agent has, and whether loopwarden answers and in which mode
    Status(StatusArgs),
    /// Take the hooks away: the same bytes as before, where nothing else has changed
    Uninstall(UninstallArgs),
}

/// Whose hooks.
#[derive(Debug, Args)]
pub struct HookArgs {
    /// The agent
    #[arg(value_name = "AGENT", value_parser = PossibleValuesParser::new(agents()))]
    pub agent: String,
    /// Where they are.
    #[command(flatten)]
    pub place: PlaceArgs,
}

/// `hook install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// Whose.
    #[command(flatten)]
    pub hook: HookArgs,
    /// Show what would be written, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also write a service of the user (systemd, launchd) that runs loopwarden on this machine, in live mode
    #[arg(long)]
    pub local: bool,
    /// Number of the user that runs loopwarden (id -u NAME), where it is neither you nor root: hooks speak to nobody else
    #[arg(long, value_name = "NUMBER", conflicts_with = "local")]
    pub uid: Option<u32>,
    /// Claude Code and Qwen Code post to the address by themselves, without a program for each call. They do not look who listens
    /// there: on a machine of one person only
    #[arg(long)]
    pub http: bool,
}

/// `hook uninstall`.
#[derive(Debug, Args)]
pub struct UninstallArgs {
    /// Whose.
    #[command(flatten)]
    pub hook: HookArgs,
    /// Show what would be taken away, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also stop and remove the service of the user (systemd, launchd) that `hook install --local` wrote
    #[arg(long)]
    pub local: bool,
}

/// Does it.
///
/// # Errors
/// A file cannot be read, understood or written; for `status`: nothing is installed.
pub fn run(command: &HookCommand) -> Outcome {
    match command {
        HookCommand::Install(args) => install(args),
        HookCommand::Status(args) => status::run(args),
        HookCommand::Uninstall(args) => uninstall(args),
    }
}

fn install(args: &InstallArgs) -> Outcome {
    let posters: Vec<&str> = installable().filter(|(_, install)| install.posts).map(|(agent, _)| agent).collect();
    if args.http && !posters.contains(&args.hook.agent.as_str()) {
        return Err(usage(&format!("--http is for {}: {} starts a program", posters.join(" and "), args.hook.agent)));
    }
    let connection = Connection::of(&args.hook.agent, &args.hook.place, args.http)?;
    let setting = &connection.setting;
    let mut out = Output::stdout();
    out.line(program::line(&args.hook.agent))?;
    connection.carry_out(args.dry_run, &mut out)?;
    if let Some(uid) = args.uid.filter(|_| !args.dry_run) {
        let path = setting.config.join("loopwarden/hook-uid");
        files::write(&path, &format!("{uid}\n"), Mode::Plain)?;
        out.line(format!("wrote {}", path.display()))?;
    }
    let address = setting.place.address;
    if args.local {
        let state = service::state(&setting.place.home);
        let folders = setting.folders(&state);
        let file = HERE.path(folders);
        let unit = HERE.text(&std::env::current_exe()?, &SettingsFrom::Flags(address), folders);
        let unchanged = service::install(&file, &unit, args.dry_run, &mut out)?;
        if !unchanged {
            out.text(indented(&unit))?;
        }
        service::warn_of_another(address, &file, &mut out)?;
        out.line(format!("start it: {}", HERE.first_command(&file)))?;
    }
    if let Some(hook) = agent(&args.hook.agent).and_then(|agent| agent.hook.as_ref()) {
        out.line("what its hooks cannot do, or need from you:")?;
        for line in hook.lacks {
            out.line(format!("  - {line}"))?;
        }
    }
    if args.http {
        out.line(
            "  - It does not look who listens: another user of this machine who takes the address reads calls and approves them.",
        )?;
        out.line("  - While no loopwarden answers, the agent shows each of its hooks as failed; with loopwarden-hook it shows nothing.")?;
        if args.hook.agent == "claude-code" && setting.place.program.is_none() {
            out.line("  - Begins of sessions are not told: loopwarden-hook is not installed.")?;
        }
    }
    // The service of --local is yet to be started, and runs in live mode.
    if !args.local {
        for line in Answering::at(address).lines() {
            out.line(line)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn uninstall(args: &UninstallArgs) -> Outcome {
    let mut setting = Setting::of(&args.hook.agent, &args.hook.place, false)?;
    // To know which files, the program need not be there any more.
    setting.place.program.get_or_insert_with(|| PathBuf::from("loopwarden-hook"));
    let changes = setting.targets()?.iter().map(files::uninstall).collect::<Result<Vec<_>, _>>();
    let changes = changes.map_err(|problem| failed(&problem))?;
    let mut out = Output::stdout();
    carry_out(&changes, args.dry_run, &mut out)?;
    let roots = setting.roots();
    let gone = changes.iter().filter(|change| !args.dry_run && change.before.is_some() && change.after.is_none());
    gone.for_each(|change| files::remove_empty_folders(&change.path, &roots));
    let data = service::state(&setting.place.home);
    let unit = HERE.path(setting.folders(&data));
    if args.local {
        service::uninstall(&unit, args.dry_run, &mut out)?;
        if !args.dry_run {
            files::remove_empty_folders(&unit, &roots);
        }
        // What it has learned is the user's to remove.
        if data.exists() {
            out.line(format!("its data stay: {}", data.display()))?;
        }
    } else if service::is_ours(&unit) {
        out.line(format!("the service that --local wrote is still there: {}", unit.display()))?;
        out.line(format!("  stop and remove it: loopwarden hook uninstall {} --local", args.hook.agent))?;
    }
    out.flush()?;
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect::<Vec<_>>().concat()
}
