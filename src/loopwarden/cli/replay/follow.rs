//! `replay --follow`: a process with a log of its own that reads what agents write while they write it. It says what it would have told
//! them, on the page and in the shadow of `run`; nobody is told anything.

use std::path::{Path, PathBuf};

use loopwarden_ask::{STATE_FOLDER, user_folder};
use loopwarden_settings::{Diagnostic, ProcessMode};

use crate::cli::args::{ConfigArgs, LogArgs, ReplayArgs};
use crate::cli::shared::{ask, setup};
use crate::failure::{Failure, Outcome};
use crate::{cli::shared::ask::RunningProcess, cli::watch, server};

/// The data directory below that of a person's programs, where the settings name none.
const DATA_DIR: &str = "loopwarden/follow";

/// Runs until told to stop.
///
/// # Errors
/// Directories and settings, else those of `run`.
pub(super) fn run(args: &ReplayArgs, log: &LogArgs) -> Outcome {
    let dirs = args.files.iter().map(|dir| directory(dir)).collect::<Result<Vec<_>, _>>()?;
    let mut set: Vec<String> = args.set.clone();
    set.extend(args.policy.iter().map(|policy| format!("policy={policy}")));
    let with_dir = |data_dir: Option<String>| ConfigArgs { set: set.clone(), data_dir, ..ConfigArgs::default() };
    let settings = || {
        let loaded = setup::load(&with_dir(None), log)?;
        if loaded.config.data_dir.is_some() { Ok(loaded) } else { setup::load(&with_dir(Some(own_dir()?)), log) }
    };
    let loaded = settings()?;
    if loaded.config.kafka.is_some() {
        return Err(refused("--follow has a log of its own and asks no Kafka, but kafka.bootstrap_servers is set"));
    }
    if loaded.config.mode != ProcessMode::Shadow {
        return Err(refused("--follow reads what agents wrote and cannot tell them anything: mode must be shadow"));
    }
    let control = setup::log_as_configured(&loaded.config)?;
    // The listener has its own address where the settings leave the port open.
    let process = RunningProcess::of(None, &loaded.config)?;
    let tell = |address| watch::beside(RunningProcess { address: ask::reachable(address), ..process.clone() });
    server::run(&loaded, &control, &settings, (&dirs, &tell))
}

/// A directory to be followed, by the one name it has.
fn directory(dir: &Path) -> Result<PathBuf, Failure> {
    let found = dir.canonicalize().and_then(|dir| dir.read_dir().map(|_| dir));
    found.map_err(|error| {
        Failure::coded("E0302", format!("cannot follow {}: {error}; --follow takes directories that are there", dir.display()))
    })
}

fn own_dir() -> Result<String, Failure> {
    let state = user_folder(STATE_FOLDER).and_then(|folder| folder.into_os_string().into_string().ok());
    let state = state.ok_or_else(|| refused("neither HOME nor XDG_STATE_HOME says where state may lie: --set data_dir=…"))?;
    Ok(format!("{state}/{DATA_DIR}"))
}

fn refused(message: &str) -> Failure {
    Diagnostic::new("E0202", message).into()
}
