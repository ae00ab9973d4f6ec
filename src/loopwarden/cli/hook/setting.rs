//! Where the hooks of an agent are, and whom they ask: what all commands on hooks begin with.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use loopwarden_ask::path_variable;
use loopwarden_sources::hook::Hook;
use loopwarden_sources::install::{Install, InstallRoot, Target};
use loopwarden_sources::{agent, installable};

use crate::{cli::hook::manager::UserFolders, cli::hook::program, exit_code, failure::Failure};

/// Where hooks are, and whom they ask.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// For the project in the current directory alone, instead of for all of the user's
    #[arg(long)]
    pub project: bool,
    /// Where loopwarden answers, on this host
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    pub address: SocketAddr,
    /// The program that the agent starts; without: loopwarden-hook in the PATH, or beside this program
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// The user's directories, and the agent's files.
pub(super) struct Setting {
    pub(super) place: InstallRoot,
    /// How hooks of the agent are installed; absent where this is about no single agent.
    install: Option<&'static Install>,
    pub(super) config: PathBuf,
    pub(super) cache: PathBuf,
}

impl Setting {
    pub(super) fn of(name: &str, args: &PlaceArgs, posts: bool) -> Result<Self, Failure> {
        let agent = agent(name);
        let install = agent.and_then(|agent| agent.install.as_ref());
        let hook = agent.and_then(|agent| agent.hook.as_ref());
        let (home, config) = folders(args)?;
        let program = match &args.program {
            Some(program) => {
                Some(std::path::absolute(program).map_err(|error| failed(&format!("{}: {error}", program.display())))?)
            }
            None => program::find("loopwarden-hook"),
        };
        let project = args.project.then(std::env::current_dir).transpose()?;
        Ok(Self {
            config,
            cache: path_variable("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache")),
            install,
            place: InstallRoot {
                agent: agent.map_or("", |agent| agent.name),
                no_opinion: hook.map(Hook::no_opinion).unwrap_or_default(),
                project,
                program,
                moved: install.and_then(|install| install.variable).and_then(path_variable),
                home,
                address: args.address,
                posts,
            },
        })
    }

    /// The files of the agent.
    pub(super) fn targets(&self) -> Result<Vec<Target>, Failure> {
        let targets = self.install.map_or_else(|| Ok(Vec::new()), |install| install.targets(&self.place));
        targets.map_err(|problem| failed(&problem))
    }

    /// Where files of a service go.
    pub(super) fn folders<'a>(&'a self, state: &'a Path) -> UserFolders<'a> {
        UserFolders { home: &self.place.home, config: &self.config, state }
    }

    /// Folders that are not ours to remove, whatever is left in them.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        let InstallRoot { home, project, moved, .. } = &self.place;
        let own = [home, &self.config, &self.cache].into_iter().cloned();
        own.chain(project.clone()).chain(moved.clone()).collect()
    }

    /// The file in which hooks that are programs find the address. Without it they ask the usual one.
    pub(super) fn address(&self) -> (PathBuf, String) {
        (self.config.join("loopwarden/hook-address"), format!("{}\n", self.place.address))
    }
}

/// Agents that hooks can be installed for.
pub(crate) fn agents() -> impl Iterator<Item = &'static str> {
    installable().map(|(agent, _)| agent)
}

/// The user's home and the folder of settings below it; hooks stay on this host.
///
/// # Errors
/// There is no home, or the address is one of another host.
pub(crate) fn folders(args: &PlaceArgs) -> Result<(PathBuf, PathBuf), Failure> {
    if !args.address.ip().is_loopback() {
        return Err(usage("--address must be one of this host: arguments and results of your agents go there unencrypted"));
    }
    let home = path_variable("HOME").ok_or_else(|| failed("the variable HOME names no directory"))?;
    let config = path_variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    Ok((home, config))
}

pub(super) fn failed(problem: &str) -> Failure {
    Failure::new(exit_code::FAILED, format!("error: {problem}"))
}

pub(crate) fn usage(problem: &str) -> Failure {
    Failure::new(exit_code::USAGE, format!("error: {problem}"))
}
