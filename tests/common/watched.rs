//! A process that a benchmark or a test waits for. Where it ends by itself, the wait ends too, with its exit status and its last words.

use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use loopwarden::clock::Deadline;

use super::bounded::{START_WAIT, bounded};

/// Between two looks at what is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Lines of a log that are shown of a process that ended.
const LAST_LINES: usize = 12;

/// A running process whose errors go to a file. Dropping it asks it to end, and waits.
pub(crate) struct Watched {
    name: String,
    child: RefCell<Child>,
    log: PathBuf,
}

impl Watched {
    /// Starts it. Its standard error is added to `log`, its standard output is thrown away.
    pub(crate) fn start(name: &str, command: &mut Command, log: &Path) -> Self {
        std::fs::create_dir_all(log.parent().expect("a log lies in a directory")).expect("a directory for a log");
        let errors = File::options().create(true).append(true).open(log).expect("a log");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        Self { name: name.to_owned(), child: RefCell::new(child), log: log.to_owned() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.borrow().id()
    }

    /// What is wrong where it has ended, though `awaited` is still to come.
    fn trouble(&self, awaited: &str) -> Option<String> {
        let ended = self.child.borrow_mut().try_wait().expect("a process of ours")?;
        Some(format!("{} ended ({ended}) before {awaited}:\n{}", self.name, last_lines(&self.log)))
    }

    /// Panics with what is wrong where it has ended.
    pub(crate) fn assert_runs(&self, awaited: &str) {
        let trouble = self.trouble(awaited);
        assert!(trouble.is_none(), "{}", trouble.unwrap_or_default());
    }

    /// Waits for the end of a process that ends by itself, which must be a success.
    pub(crate) fn finish(self) {
        let id = self.id();
        let ended = bounded(id, START_WAIT, || self.child.borrow_mut().wait()).expect("a process of ours");
        assert!(ended.success(), "{} failed ({ended}):\n{}", self.name, last_lines(&self.log));
    }

    /// Asks it to end, waits, and kills it where that takes too long.
    pub(crate) fn stop(&self) -> ExitStatus {
        let mut child = self.child.borrow_mut();
        if let Some(ended) = child.try_wait().expect("a process of ours") {
            return ended;
        }
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        bounded(child.id(), START_WAIT, || child.wait()).expect("a process of ours")
    }

    /// `kill -9`, which is nothing new to a process that has ended.
    pub(crate) fn kill(&self) {
        let mut child = self.child.borrow_mut();
        child.kill().expect("a process of ours");
        child.wait().expect("a process of ours");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Looks again and again until there is something. Panics with what is wrong where one of these processes ends, or none has come in time.
pub(crate) fn until<T>(watched: &[&Watched], awaited: &str, patience: Duration, look: impl FnMut() -> Option<T>) -> T {
    try_until(watched, awaited, patience, look).unwrap_or_else(|trouble| panic!("{trouble}"))
}

fn try_until<T>(
    watched: &[&Watched],
    awaited: &str,
    patience: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Result<T, String> {
    let deadline = Deadline::after(patience);
    loop {
        let next = Deadline::after(LOOK_EVERY);
        if let Some(found) = look() {
            return Ok(found);
        }
        if let Some(trouble) = watched.iter().find_map(|one| one.trouble(awaited)) {
            return Err(trouble);
        }
        if deadline.is_over() {
            let logs: Vec<String> = watched.iter().map(|one| format!("{}:\n{}", one.name, last_lines(&one.log))).collect();
            return Err(format!("{awaited} did not come within {patience:?}\n{}", logs.join("\n")));
        }
        std::thread::park_timeout(next.left());
    }
}

fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its end is noticed long before this, or not at all.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn shell(name: &str, script: &str) -> Watched {
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("watched-{}-{name}.log", std::process::id()));
        let _ = std::fs::remove_file(&log);
        Watched::start(name, Command::new("sh").args(["-c", script]), &log)
    }

    #[test]
    fn a_wait_for_a_process_that_ended_says_why_it_ended() {
        let (runs, ended) = (shell("runs", "sleep 300"), shell("ends", "echo 'data_dir is refused' >&2; exit 78"));
        let trouble = try_until(&[&runs, &ended], "the first answer", PATIENCE, || None::<()>).unwrap_err();
        assert_eq!(trouble, "ends ended (exit status: 78) before the first answer:\ndata_dir is refused");
    }

    #[test]
    fn a_wait_for_what_never_comes_ends_and_shows_the_log() {
        let runs = shell("waits", "echo 'no broker' >&2; sleep 300");
        until(&[&runs], "its log", PATIENCE, || Some(()).filter(|()| !last_lines(&runs.log).is_empty()));
        runs.assert_runs("its end");
        let trouble = try_until(&[&runs], "the first answer", Duration::ZERO, || None::<()>).unwrap_err();
        assert_eq!(trouble, "the first answer did not come within 0ns\nwaits:\nno broker");
        assert_eq!(runs.stop().code(), None, "a signal ended it");
        shell("done", "exit 0").finish();
        let killed = shell("killed", "sleep 300");
        killed.kill();
        assert!(try_until(&[&killed], "more", PATIENCE, || None::<()>).unwrap_err().contains("signal: 9"));
    }
}
