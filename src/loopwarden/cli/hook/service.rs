//! loopwarden itself as a service of the user, on this machine alone.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cli::hook::files;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use loopwarden_sources::install::Mode;

/// First line of a unit of ours: one of somebody else under this name is left alone.
const MARK: &str = "# Written by loopwarden hook install --local.";
/// What a person types to start the service, now and with each login.
pub(crate) const START: &str = "systemctl --user enable --now loopwarden";
/// What a person types to stop it for good.
pub(crate) const STOP: &str = "systemctl --user disable --now loopwarden";
/// Longest wait for somebody at the address.
const LOOK_WAIT: Duration = Duration::from_secs(1);

/// Where what the service runs is told its settings.
pub(crate) enum SettingsFrom<'a> {
    /// Its command line: live mode, and this address.
    Flags(SocketAddr),
    /// A configuration file.
    File(&'a Path),
}

/// Where the unit lies.
pub(crate) fn path(config: &Path) -> PathBuf {
    config.join("systemd/user/loopwarden.service")
}

/// The unit. Paths with a `%` or a blank are written as systemd reads them, and a `$` of an argument, which would name a variable.
pub(crate) fn unit(program: &Path, told: &SettingsFrom<'_>) -> String {
    let escaped = |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let (settings, state) = match told {
        SettingsFrom::Flags(address) => (
            format!("--data-dir %S/loopwarden --set http.listen={address} --set mode=live"),
            "StateDirectory=loopwarden\nStateDirectoryMode=0700\n",
        ),
        SettingsFrom::File(file) => (format!("--config \"{}\"", escaped(file).replace('$', "$$")), ""),
    };
    let program = escaped(program);
    format!(
        "{MARK}\n\
         [Unit]\n\
         Description=loopwarden: finds AI agents that go round in circles\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart=\"{program}\" run {settings}\n\
         {state}\
         UMask=0077\n\
         LimitNOFILE=65536\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         RestartPreventExitStatus=2 75 78\n\
         NoNewPrivileges=yes\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}

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
        let mode = if unit.contains("mode=live") { ", in live mode: it nudges and blocks" } else { "" };
        out.line(format!("wrote {}{mode}", path.display()))?;
    }
    Ok(false)
}

/// Starts the service, now and with each login. Whether it was: not where there is no systemd, or it could not start.
pub(crate) fn start() -> bool {
    let done = |arguments: &[&str]| manager(arguments).is_ok_and(|success| success);
    done(&["daemon-reload"]) && done(&["enable", "--now", "loopwarden"])
}

/// Whether a process listens at the address that is not the service itself.
pub(crate) fn is_taken(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, LOOK_WAIT).is_ok() && !is_active()
}

fn is_active() -> bool {
    manager(&["is-active", "--quiet", "loopwarden"]).is_ok_and(|success| success)
}

/// Says so where a process listens at the address already that is not the service itself: the service could not start.
pub(super) fn warn_of_another(address: SocketAddr, out: &mut Output) -> Outcome {
    if TcpStream::connect_timeout(&address, LOOK_WAIT).is_err() {
        return Ok(());
    }
    if is_active() {
        out.line("the service runs already: systemctl --user restart loopwarden")?;
        return Ok(());
    }
    out.line(format!("warning: another process listens at {address} already: the service cannot start beside it"))?;
    out.line("  stop that process first, or install with another --address")?;
    Ok(())
}

/// Whether a unit of ours is there.
pub(super) fn is_ours(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|unit| unit.starts_with(MARK))
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
    match manager(&["disable", "--now", "loopwarden"]) {
        Ok(true) => out.line("stopped the service")?,
        Ok(false) => out.line("systemctl did not stop the service: it may run until you log out")?,
        Err(_) => out.line("systemctl is not here: a loopwarden that runs goes on until it is stopped")?,
    }
    std::fs::remove_file(path)?;
    out.line(format!("removed {shown}"))?;
    // Without it the manager knows the unit until the next login; nothing depends on that.
    let _ = manager(&["daemon-reload"]);
    Ok(())
}

/// Where systemd keeps the state of a user's service.
pub(crate) fn state(home: &Path) -> PathBuf {
    let moved = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    moved.unwrap_or_else(|| home.join(".local/state")).join("loopwarden")
}

/// Asks the user's systemd, and returns whether it did so. What it says is not ours to show.
fn manager(arguments: &[&str]) -> io::Result<bool> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status()?.success())
}
