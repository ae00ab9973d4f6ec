//! Other programs: the agent's version, and whether Codex's user has trusted the hook.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{io::Read as _, sync::mpsc::sync_channel, time::Duration};

/// Longest wait for a program's version: some start a runtime first.
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// Longest version that is read. Bytes.
const VERSION_BYTES_MAX: u64 = 1_024;

/// The first line of what a program says to `--version`; absent where it is not there, fails or is silent.
pub(super) fn version(program: &str) -> Option<String> {
    let mut child =
        Command::new(program).arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let output = child.stdout.take()?;
    let (tell, told) = sync_channel(1);
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.take(VERSION_BYTES_MAX).read_to_string(&mut text);
        let _ = tell.send(text);
    });
    let text = told.recv_timeout(VERSION_WAIT).ok();
    // It has said what there is to say, or never will.
    let _ = child.kill();
    let _ = child.wait();
    let text = text?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().filter(|letter| !letter.is_control()).collect())
}

/// Looks for a program in the PATH, then beside this one. The path as it stands there: it may be a link that survives an upgrade.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let mut folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute()).chain(beside);
    folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()))
}

/// How many hooks of a file Codex's user has trusted: Codex keeps a hash of each in its own configuration.
pub(super) fn trusted_by_codex(config: &str, hooks: &Path) -> usize {
    let Ok(config) = config.parse::<toml::Table>() else { return 0 };
    let states = config.get("hooks").and_then(|hooks| hooks.get("state")).and_then(toml::Value::as_table);
    let hooks = hooks.to_string_lossy();
    let is_trusted = |(name, state): &(&String, &toml::Value)| {
        name.contains(&*hooks) && state.get("trusted_hash").is_some_and(toml::Value::is_str)
    };
    states.into_iter().flatten().filter(is_trusted).count()
}

/// Which program this is about, in the version that is there.
pub(super) fn line(agent: &str) -> String {
    let install = loopwarden_sources::agent(agent).and_then(|agent| agent.install.as_ref());
    let Some(program) = install.and_then(|install| install.program) else {
        return format!("{agent}: has no command to ask for its version");
    };
    match version(program) {
        Some(version) => format!("{agent}: {version} ({program} --version)"),
        None => format!("{agent}: {program} is not in the PATH, or does not tell its version"),
    }
}
