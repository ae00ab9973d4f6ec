//! Where hooks are installed, and what a shell runs for them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct InstallRoot {
    pub agent: &'static str,
    /// What it reads where a hook has no opinion; empty where that is nothing.
    pub no_opinion: String,
    pub home: PathBuf,
    /// Root of the project; absent for an installation for the user.
    pub project: Option<PathBuf>,
    /// Directory that an agent's own variable names in place of one below the home.
    pub moved: Option<PathBuf>,
    /// The program that agents start; absent where it is not installed.
    pub program: Option<PathBuf>,
    pub address: SocketAddr,
    /// Whether an agent that can is to post by itself, to whoever listens there.
    pub posts: bool,
}

impl InstallRoot {
    /// A path below the project; else a path below the user's own `folder` of the agent, or below what moves that.
    pub(crate) fn path(&self, project: &str, folder: &str, of_user: &str) -> PathBuf {
        let folder = || self.moved.clone().unwrap_or_else(|| self.home.join(folder));
        self.project.as_ref().map_or_else(|| folder().join(of_user), |root| root.join(project))
    }

    /// What a shell runs: nothing, with success, once the program is gone. Some agents refuse every call where a hook cannot be started.
    /// `event` is empty where the agent names the event itself.
    ///
    /// # Errors
    /// The program is not installed.
    pub(crate) fn command(&self, event: &str) -> Result<String, String> {
        let (program, agent) = (quoted(self.program()?), self.agent);
        let fallback = match self.no_opinion.as_str() {
            "" => "exit 0".to_owned(),
            answer => format!("{{ echo '{answer}'; exit 0; }}"),
        };
        let space = if event.is_empty() { "" } else { " " };
        Ok(format!("[ -x {program} ] || {fallback}; exec {program} {agent}{space}{event}"))
    }

    /// The program that agents start.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn program(&self) -> Result<&Path, String> {
        self.program.as_deref().ok_or_else(|| {
            "the program loopwarden-hook is neither beside loopwarden nor in the PATH; --program names it".to_owned()
        })
    }

    /// The address to which an agent posts by itself.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1/hooks/{}", self.address, self.agent)
    }
}

/// A path as a word of a shell, whatever is in it.
#[must_use]
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}
