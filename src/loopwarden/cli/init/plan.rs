//! What `init` does: looked at in full before the first write, so that nothing is half done because of what was there.

use std::path::{Path, PathBuf};
use std::{fs, io::Write as _, os::unix::fs::OpenOptionsExt as _};

use loopwarden_settings::{Diagnostic, ProcessMode};

use crate::cli::hook::{self, Answering, Connection, HERE, service};
use crate::cli::init::args::{Answers, InitArgs, On};
use crate::cli::init::settings::Settings;
use crate::cli::shared::setup::settings_below;
use crate::failure::{Failure, Outcome};
use crate::output::Output;

/// A file is there that says something else.
const IS_THERE: &str = "E0209";
/// Longest file that is compared. Bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file of ours, and what it is to hold.
struct File {
    path: PathBuf,
    text: String,
    is_there: bool,
}

impl File {
    /// Looks whether it is there.
    fn of(path: PathBuf, text: String, way_out: &str) -> Result<Self, Failure> {
        let is_there = match fs::symlink_metadata(&path) {
            Err(_) => false,
            Ok(found) => {
                let is_same = found.len() <= FILE_BYTES_MAX && fs::read_to_string(&path).is_ok_and(|there| there == text);
                if !is_same {
                    let message = format!("{} is there already and says something else; init replaces no file", path.display());
                    return Err(Diagnostic::new(IS_THERE, message).help(way_out).into());
                }
                true
            }
        };
        Ok(Self { path, text, is_there })
    }

    /// Writes it, where there is none: what somebody has put there meanwhile stays.
    fn write(&self, is_dry: bool, out: &mut Output) -> Outcome {
        let shown = self.path.display();
        if self.is_there {
            return Ok(out.line(format!("{shown}: nothing to do"))?);
        }
        if is_dry {
            out.line(format!("would write {shown}"))?;
            return Ok(self.text.lines().try_for_each(|line| out.line(format!("+{line}")))?);
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&self.path)?;
        file.write_all(self.text.as_bytes()).and_then(|()| file.sync_all())?;
        Ok(out.line(format!("wrote {shown}"))?)
    }
}

/// Something that was done, and the command that undoes it.
type Done = (String, String);

/// What is to be done.
pub(super) struct Plan<'a> {
    args: &'a InitArgs,
    answers: Answers,
    settings: Settings,
    config: File,
    unit: Option<File>,
    connections: Vec<(String, Connection)>,
}

impl<'a> Plan<'a> {
    /// Looks at everything, and writes nothing.
    ///
    /// # Errors
    /// A file that is there, or that cannot be understood; settings that no process takes.
    pub(super) fn of(args: &'a InitArgs, answers: Answers) -> Result<Self, Failure> {
        let (home, config) = hook::folders(&args.place)?;
        let state = service::state(&home);
        let is_laptop = answers.on == On::Laptop;
        let settings = Settings {
            on: answers.on,
            bootstrap: answers.bootstrap.clone(),
            mode: answers.mode,
            data_dir: if is_laptop { state.clone() } else { state.with_file_name("loopwarden-kafka") },
            listen: args.place.address,
        };
        settings.check()?;
        let path = match &args.out {
            Some(path) => std::path::absolute(path)?,
            None => settings_below(&config),
        };
        let way_out = "edit it, move it away, or write another one: --out FILE";
        let unit = is_laptop.then(|| {
            let folders = hook::UserFolders { home: &home, config: &config, state: &state };
            let text = HERE.text(&std::env::current_exe()?, &hook::SettingsFrom::File(&path), folders);
            File::of(HERE.path(folders), text, &format!("stop and remove it: {}, then rm FILE", HERE.stop_command()))
        });
        let connect = |agent: &String| Ok((agent.clone(), Connection::of(agent, &args.place, false)?));
        Ok(Self {
            config: File::of(path, settings.text(), way_out)?,
            unit: unit.transpose()?,
            connections: answers.agents.iter().map(connect).collect::<Result<_, Failure>>()?,
            args,
            answers,
            settings,
        })
    }

    /// Does it, or says what it would do. What was done is told in any case.
    ///
    /// # Errors
    /// As any write.
    pub(super) fn carry_out(&self, is_dry: bool, out: &mut Output) -> Outcome {
        let mut done = Vec::new();
        let outcome = self.steps(is_dry, &mut done, out);
        if !is_dry {
            if !done.is_empty() {
                out.line("\nwhat was done, and what undoes it:")?;
            }
            for (what, undo) in &done {
                out.line(format!("  {what}\n    undo: {undo}"))?;
            }
        }
        let is_running = outcome?;
        if is_dry { Ok(()) } else { self.next(is_running, out) }
    }

    /// Whether the service runs afterwards.
    fn steps(&self, is_dry: bool, done: &mut Vec<Done>, out: &mut Output) -> Result<bool, Failure> {
        let remove = |path: &Path| format!("rm {}", word(path));
        self.config.write(is_dry, out)?;
        if !self.config.is_there {
            done.push((format!("settings: {}", self.config.path.display()), remove(&self.config.path)));
        }
        for (agent, connection) in &self.connections {
            let address = connection.carry_out(is_dry, out)?;
            let project = if self.args.place.project { " --project" } else { "" };
            if !connection.is_there() {
                done.push((format!("hooks of {agent}"), format!("loopwarden hook uninstall {agent}{project}")));
            }
            if let Some(path) = address.filter(|_| !done.iter().any(|(what, _)| what.starts_with("address"))) {
                done.push((format!("address of hooks: {}", path.display()), remove(&path)));
            }
        }
        let Some(unit) = &self.unit else { return Ok(false) };
        unit.write(is_dry, out)?;
        if is_dry {
            out.line(format!("would start it: {}", HERE.start_command(&unit.path)))?;
            return Ok(false);
        }
        // Known before it is started, which may take long or fail.
        let at = done.len();
        if !unit.is_there {
            done.push((format!("service: {}", unit.path.display()), remove(&unit.path)));
        }
        let address = self.args.place.address;
        if service::is_taken(address, &unit.path) {
            out.line(format!("warning: another process listens at {address}: the service is not started beside it"))?;
            out.line(format!("  stop that process, then: {}", HERE.start_command(&unit.path)))?;
            return Ok(false);
        }
        if !HERE.start(&unit.path) {
            out.line(format!("{} did not start the service; in a terminal the same is", HERE.name()))?;
            out.line(format!("  loopwarden run{}", self.named()))?;
            return Ok(false);
        }
        out.line("started the service, now and with each login")?;
        done.truncate(at);
        done.push(if unit.is_there {
            ("service: started".to_owned(), HERE.stop_command())
        } else {
            (format!("service: {}, started", unit.path.display()), format!("{} && {}", HERE.stop_command(), remove(&unit.path)))
        });
        Ok(true)
    }

    /// What names the file to a command; nothing where each command finds it.
    fn named(&self) -> String {
        self.args.out.as_ref().map_or_else(String::new, |_| format!(" --config {}", word(&self.config.path)))
    }

    /// What comes next.
    fn next(&self, is_running: bool, out: &mut Output) -> Outcome {
        let (config, address) = (self.named(), self.args.place.address);
        out.line(format!("\nevents and state go to {}", self.settings.data_dir.display()))?;
        for agent in &self.answers.agents {
            if let Some(todo) = hook::todo(agent) {
                out.line(format!("{agent}: {todo}"))?;
            }
        }
        if self.answers.on == On::Laptop {
            for line in if is_running { Answering::at(address).lines() } else { Vec::new() } {
                out.line(line)?;
            }
            out.line(format!("what agents are told, as it comes: loopwarden tail{config}; on a page: http://{address}"))?;
        } else {
            out.line("next:")?;
            for verb in ["topics create", "check --connect", "run"] {
                out.line(format!("  loopwarden {verb}{config}"))?;
            }
            if !self.answers.agents.is_empty() {
                out.line(format!("  loopwarden guard --state kafka --listen {address}{config}"))?;
                out.line("    on each machine with agents: their hooks ask it; `run` beside it needs another http.listen")?;
            }
        }
        if self.answers.mode == ProcessMode::Shadow {
            out.line(format!(
                "when you trust what you see: mode = \"live\" in {}, and start it again",
                self.config.path.display()
            ))?;
        }
        Ok(())
    }
}

/// A path as a person writes it in a shell.
fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter));
    if is_plain { text.into_owned() } else { hook::quoted(path) }
}
