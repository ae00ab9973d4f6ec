//! loopwarden itself as a service of the user, on this machine alone.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::hook::manager::{HERE, MARK};
use crate::failure::{Failure, Outcome};
use crate::{cli::hook::files, output::Output};
use loopwarden_ask::path_variable;
use loopwarden_sources::install::Mode;

/// Lines in which it may stand: a property list has its own first ones.
const MARK_LINES: usize = 3;
/// Longest wait for somebody at the address.
const LOOK_WAIT: Duration = Duration::from_secs(1);

/// Writes the unit. Returns whether it was there already, the same.
pub(crate) fn install(path: &Path, unit: &str, is_dry: bool, out: &mut Output) -> Result<bool, Failure> {
    if std::fs::read_to_string(path).is_ok_and(|there| there == unit) {
        out.line(format!("{}: nothing to do", path.display()))?;
        return Ok(true);
    }
    if is_dry {
        out.line(format!("would write {}", path.display()))?;
    } else {
        files::write(path, unit, Mode::Plain)?;
        let mode =
            if unit.contains("mode=live<") || unit.contains("mode=live\n") { ", in live mode: it nudges and blocks" } else { "" };
        out.line(format!("wrote {}{mode}", path.display()))?;
    }
    Ok(false)
}

/// Whether a process listens at the address that is not the service itself.
pub(crate) fn is_taken(address: SocketAddr, file: &Path) -> bool {
    TcpStream::connect_timeout(&address, LOOK_WAIT).is_ok() && !HERE.is_active(file)
}

/// Says so where a process listens at the address already that is not the service itself: the service could not start.
pub(super) fn warn_of_another(address: SocketAddr, file: &Path, out: &mut Output) -> Outcome {
    if TcpStream::connect_timeout(&address, LOOK_WAIT).is_err() {
        return Ok(());
    }
    if HERE.is_active(file) {
        out.line(format!("the service runs already: {}", HERE.restart_command()))?;
        return Ok(());
    }
    out.line(format!("warning: another process listens at {address} already: the service cannot start beside it"))?;
    out.line("  stop that process first, or install with another --address")?;
    Ok(())
}

/// Whether a unit of ours is there.
pub(super) fn is_ours(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().take(MARK_LINES).any(|line| line.contains(MARK)))
}

/// Stops the service and removes its unit.
pub(super) fn uninstall(path: &Path, is_dry: bool, out: &mut Output) -> Outcome {
    let shown = path.display();
    if !path.exists() {
        out.line(format!("{shown}: nothing to do"))?;
        return Ok(());
    }
    if !is_ours(path) {
        return Err(Failure::failed(format!("{shown} is not of loopwarden hook install --local: it stays")));
    }
    if is_dry {
        out.line(format!("would stop the service and remove {shown}"))?;
        return Ok(());
    }
    let program = HERE.program();
    match HERE.stop(path) {
        Ok(true) => out.line("stopped the service")?,
        Ok(false) => out.line(format!("{program} did not stop the service: it may run until you log out"))?,
        Err(_) => out.line(format!("{program} is not here: a loopwarden that runs goes on until it is stopped"))?,
    }
    std::fs::remove_file(path)?;
    out.line(format!("removed {shown}"))?;
    HERE.forget();
    Ok(())
}

/// Where the state of a user's service is kept; systemd has the same rule.
pub(crate) fn state(home: &Path) -> PathBuf {
    path_variable("XDG_STATE_HOME").unwrap_or_else(|| home.join(".local/state")).join("loopwarden")
}
