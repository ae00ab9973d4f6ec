//! Who runs the service of a user: systemd, or launchd on a Mac. What is written for either is text alone, and is made on every system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};
use std::{net::SocketAddr, os::unix::fs::MetadataExt as _};

use loopwarden_sources::install::quoted;

/// Stands in the first lines of a file of ours: one of somebody else under its name is left alone.
pub(super) const MARK: &str = "Written by loopwarden hook install";
/// Name of the service at launchd.
const LABEL: &str = "dev.loopwarden";
/// Name of the service at systemd.
const UNIT: &str = "loopwarden";

/// Who starts the service, and again after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manager {
    Systemd,
    Launchd,
}

/// The manager that this system has.
pub(crate) const HERE: Manager = if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd };

/// Folders of the user that a service is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UserFolders<'a> {
    pub(crate) home: &'a Path,
    /// Folder of settings, as `XDG_CONFIG_HOME` has it.
    pub(crate) config: &'a Path,
    /// Of state, as `service::state` has it.
    pub(crate) state: &'a Path,
}

/// Where what the service runs is told its settings.
pub(crate) enum SettingsFrom<'a> {
    /// Its command line: live mode, and this address.
    Flags(SocketAddr),
    /// A configuration file.
    File(&'a Path),
}

impl Manager {
    /// Its name, as people know it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Launchd => "launchd",
        }
    }

    /// Where the file of the service lies.
    pub(crate) fn path(self, folders: UserFolders<'_>) -> PathBuf {
        match self {
            Self::Systemd => folders.config.join("systemd/user/loopwarden.service"),
            Self::Launchd => folders.home.join(format!("Library/LaunchAgents/{LABEL}.plist")),
        }
    }

    /// What the file of the service holds.
    pub(crate) fn text(self, program: &Path, settings: &SettingsFrom<'_>, folders: UserFolders<'_>) -> String {
        match self {
            Self::Systemd => unit(program, settings),
            Self::Launchd => plist(program, settings, folders),
        }
    }

    /// What a person types to start the service, now and with each login.
    pub(crate) fn start_command(self, file: &Path) -> String {
        match self {
            Self::Systemd => "systemctl --user enable --now loopwarden".to_owned(),
            Self::Launchd => format!("launchctl bootstrap gui/$(id -u) {}", quoted(file)),
        }
    }

    /// What a person types to stop it for good.
    pub(crate) fn stop_command(self) -> String {
        match self {
            Self::Systemd => "systemctl --user disable --now loopwarden".to_owned(),
            Self::Launchd => format!("launchctl bootout gui/$(id -u)/{LABEL}"),
        }
    }

    /// What a person types to have it read its file and its settings anew.
    pub(crate) fn restart_command(self) -> String {
        match self {
            Self::Systemd => "systemctl --user restart loopwarden".to_owned(),
            Self::Launchd => format!("launchctl kickstart -k gui/$(id -u)/{LABEL}"),
        }
    }

    /// What a person types to start it where its file has just been written.
    pub(crate) fn first_command(self, file: &Path) -> String {
        match self {
            Self::Systemd => format!("systemctl --user daemon-reload && {}", self.start_command(file)),
            Self::Launchd => self.start_command(file),
        }
    }

    /// Starts the service of a file, now and with each login. Whether it was: not where the manager is not here, or it could not start.
    pub(crate) fn start(self, file: &Path) -> bool {
        let done = |arguments: &[&str]| self.ask(arguments).is_ok_and(|success| success);
        match self {
            Self::Systemd => done(&["--user", "daemon-reload"]) && done(&["--user", "enable", "--now", UNIT]),
            Self::Launchd => owner(file).is_ok_and(|uid| done(&["bootstrap", &format!("gui/{uid}"), &file.to_string_lossy()])),
        }
    }

    /// Stops the service of a file. Whether it was stopped.
    ///
    /// # Errors
    /// The manager is not here.
    pub(crate) fn stop(self, file: &Path) -> io::Result<bool> {
        match self {
            Self::Systemd => self.ask(&["--user", "disable", "--now", UNIT]),
            Self::Launchd => self.ask(&["bootout", &format!("gui/{}/{LABEL}", owner(file)?)]),
        }
    }

    /// The file of the service is gone. Without this the manager knows it until the next login; nothing depends on that.
    pub(crate) fn forget(self) {
        if self == Self::Systemd {
            let _ = self.ask(&["--user", "daemon-reload"]);
        }
    }

    /// Whether the service of a file runs.
    pub(crate) fn is_active(self, file: &Path) -> bool {
        let asked = match self {
            Self::Systemd => self.ask(&["--user", "is-active", "--quiet", UNIT]),
            // It knows a service that has ended, too: its exit code 0 is final.
            Self::Launchd => owner(file).and_then(|uid| {
                let shown = self.command(&["print", &format!("gui/{uid}/{LABEL}")]).output()?;
                let runs = String::from_utf8_lossy(&shown.stdout).lines().any(|line| line.trim() == "state = running");
                Ok(shown.status.success() && runs)
            }),
        };
        asked.is_ok_and(|success| success)
    }

    /// The program that a person asks.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Systemd => "systemctl",
            Self::Launchd => "launchctl",
        }
    }

    /// Asks it, and returns whether it did so. What it prints is not ours to show.
    fn ask(self, arguments: &[&str]) -> io::Result<bool> {
        Ok(self.command(arguments).stdout(Stdio::null()).status()?.success())
    }

    fn command(self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program());
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// The user whose file it is: services of launchd belong to the session of one.
fn owner(file: &Path) -> io::Result<u32> {
    Ok(fs::metadata(file)?.uid())
}

/// The unit of systemd. Paths with a `%` or a blank are written as systemd reads them, and a `$` of an argument, which would name a variable.
fn unit(program: &Path, settings: &SettingsFrom<'_>) -> String {
    let escaped = |path: &Path| path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let (settings, state) = match settings {
        SettingsFrom::Flags(address) => (
            format!("--data-dir %S/loopwarden --set http.listen={address} --set mode=live"),
            "StateDirectory=loopwarden\nStateDirectoryMode=0700\n",
        ),
        SettingsFrom::File(file) => (format!("--config \"{}\"", escaped(file).replace('$', "$$")), ""),
    };
    let program = escaped(program);
    format!(
        "# {MARK} --local.\n\
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

/// The agent of launchd. It knows no exit codes after which nothing is started again, but success: with `--launchd` the program ends with it
/// where another start would end in the same way. 63 is the mask 0077. A comment must not hold two hyphens.
fn plist(program: &Path, settings: &SettingsFrom<'_>, folders: UserFolders<'_>) -> String {
    let mut arguments = vec![program.to_string_lossy().into_owned(), "run".to_owned(), "--launchd".to_owned()];
    match settings {
        SettingsFrom::Flags(address) => {
            let data_dir = folders.state.to_string_lossy().into_owned();
            let listen = format!("http.listen={address}");
            arguments.extend(["--data-dir", &data_dir, "--set", &listen, "--set", "mode=live"].map(str::to_owned));
        }
        SettingsFrom::File(file) => arguments.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]),
    }
    let element = |argument: &String| format!("    <string>{}</string>\n", escaped(argument));
    let arguments = arguments.iter().map(element).collect::<Vec<_>>().concat();
    let log = escaped(&folders.home.join("Library/Logs/loopwarden.log").to_string_lossy());
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- {MARK}. -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>90</integer>
  <key>ProcessType</key>
  <string>Background</string>
  <key>Umask</key>
  <integer>63</integer>
  <key>SoftResourceLimits</key>
  <dict>
    <key>NumberOfFiles</key>
    <integer>65536</integer>
  </dict>
  <key>StandardOutPath</key>
  <string>{log}</string>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"#
    )
}

/// A text between tags. What XML has no way to write at all is left out: no path that works has it.
fn escaped(text: &str) -> String {
    let plain: String = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\t' | '\n')).collect();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::{Value, json};

    use super::*;

    fn folders() -> UserFolders<'static> {
        UserFolders { home: Path::new("/Users/a b&<c>"), config: Path::new("/c"), state: Path::new("/s \"t\"/loopwarden") }
    }

    /// The file as a Mac reads it: Python's own reader of property lists stands for it. None where there is no Python.
    fn read(plist: &str) -> Option<Value> {
        let script =
            "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read(), fmt=plistlib.FMT_XML)))";
        let mut python = Command::new("python3");
        let child = python.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            println!("skipped: there is no python3 to read a property list");
            return None;
        };
        child.stdin.take().expect("piped").write_all(plist.as_bytes()).expect("a reader");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "no property list: {plist}");
        Some(serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    #[test]
    fn launchd_gets_a_property_list_with_each_argument_as_it_is() {
        let program = Path::new("/opt/a & b/<loop>\"warden\"");
        let address = "127.0.0.1:9464".parse().expect("an address");
        let text = Manager::Launchd.text(program, &SettingsFrom::Flags(address), folders());
        let Some(list) = read(&text) else { return };
        let arguments = [
            "run",
            "--launchd",
            "--data-dir",
            "/s \"t\"/loopwarden",
            "--set",
            "http.listen=127.0.0.1:9464",
            "--set",
            "mode=live",
        ];
        let expected: Vec<&str> = [program.to_str().expect("text")].into_iter().chain(arguments).collect();
        assert_eq!(list["ProgramArguments"], json!(expected));
        assert_eq!((&list["Label"], &list["RunAtLoad"]), (&json!("dev.loopwarden"), &json!(true)));
        assert_eq!(list["KeepAlive"], json!({ "SuccessfulExit": false }));
        assert_eq!(
            (&list["Umask"], &list["StandardErrorPath"]),
            (&json!(0o077), &json!("/Users/a b&<c>/Library/Logs/loopwarden.log"))
        );
        let file = SettingsFrom::File(Path::new("/Users/a b/-->.toml"));
        let list = read(&Manager::Launchd.text(program, &file, folders())).expect("read before");
        let arguments = json!([program.to_str().expect("text"), "run", "--launchd", "--config", "/Users/a b/-->.toml"]);
        assert_eq!(list["ProgramArguments"], arguments);
    }

    #[test]
    fn each_manager_has_a_place_and_commands_of_its_own() {
        let file = Manager::Launchd.path(folders());
        assert_eq!(file, Path::new("/Users/a b&<c>/Library/LaunchAgents/dev.loopwarden.plist"));
        assert_eq!(
            Manager::Launchd.first_command(&file),
            "launchctl bootstrap gui/$(id -u) '/Users/a b&<c>/Library/LaunchAgents/dev.loopwarden.plist'"
        );
        assert_eq!(Manager::Launchd.stop_command(), "launchctl bootout gui/$(id -u)/dev.loopwarden");
        let unit = Manager::Systemd.path(folders());
        assert_eq!(unit, Path::new("/c/systemd/user/loopwarden.service"));
        assert!(Manager::Systemd.first_command(&unit).starts_with("systemctl --user daemon-reload && systemctl --user enable"));
    }
}
