//! The hooks of one agent, looked at before anything is written: what `hook install` and `init` share.

use std::path::PathBuf;

use loopwarden_sources::install::{Install, Mode};

use crate::cli::hook::files::{self, Change};
use crate::cli::hook::setting::{PlaceArgs, Setting, failed};
use crate::failure::{Failure, Outcome};
use crate::{cli::hook::program, output::Output};

/// What is to become of the files of one agent.
pub(crate) struct Connection {
    pub(super) setting: Setting,
    changes: Vec<Change>,
}

impl Connection {
    /// Reads what is there, and writes nothing.
    ///
    /// # Errors
    /// A file cannot be read or understood, or is somebody else's.
    pub(crate) fn of(agent: &str, place: &PlaceArgs, posts: bool) -> Result<Self, Failure> {
        let setting = Setting::of(agent, place, posts)?;
        let changes = setting.targets()?.iter().map(files::install).collect::<Result<Vec<_>, _>>();
        Ok(Self { changes: changes.map_err(|problem| failed(&problem))?, setting })
    }

    /// Writes, or says what would be written. The file with the address comes back where it was written.
    ///
    /// # Errors
    /// As any write.
    pub(crate) fn carry_out(&self, is_dry: bool, out: &mut Output) -> Result<Option<PathBuf>, Failure> {
        carry_out(&self.changes, is_dry, out)?;
        let (path, line) = self.setting.address();
        let is_usual = self.setting.place.address.to_string() == "127.0.0.1:9464";
        if is_dry || (is_usual && !path.exists()) {
            return Ok(None);
        }
        files::write(&path, &line, Mode::Plain)?;
        out.line(format!("wrote {}", path.display()))?;
        Ok(Some(path))
    }

    /// Whether there is nothing to write into the agent's files.
    pub(crate) fn is_there(&self) -> bool {
        self.changes.iter().all(Change::is_none)
    }
}

/// Writes changes, or shows them.
pub(super) fn carry_out(changes: &[Change], is_dry: bool, out: &mut Output) -> Outcome {
    for change in changes {
        let path = change.path.display();
        if !is_dry {
            change.close_backup()?;
        }
        let (would, did) = if change.after.is_some() { ("write", "wrote") } else { ("remove", "removed") };
        if change.is_none() {
            out.line(format!("{path}: nothing to do"))?;
        } else if is_dry {
            out.line(format!("would {would} {path}"))?;
            out.text(change.diff())?;
        } else {
            change.apply()?;
            out.line(format!("{did} {path}"))?;
        }
    }
    Ok(())
}

/// Agents that are on this machine: their command is in the PATH, or their directory is there.
pub(crate) fn found() -> Vec<&'static str> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let has_folder = |folder: &str| home.as_ref().is_some_and(|home| home.join(folder).is_dir());
    let is_here = |install: &Install| match install.program {
        Some(name) => program::find(name).is_some(),
        None => install.folder.is_some_and(has_folder),
    };
    loopwarden_sources::installable().filter(|(_, install)| is_here(install)).map(|(agent, _)| agent).collect()
}

/// What its user has to do before the hooks of an agent work.
pub(crate) fn todo(agent: &str) -> Option<&'static str> {
    loopwarden_sources::agent(agent)?.install.as_ref()?.todo
}
