//! Real processes: started, killed, stopped, continued, asked to end. None outlives its handle.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{fs, thread};
use std::{fs::File, os::unix::process::ExitStatusExt as _, time::Duration};

use loopwarden::clock::Deadline;
use loopwarden::log::kafka::{GroupProtocol, KafkaOptions};

use crate::environment::told_nothing;
use crate::reference::LATENESS_MS;

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);
const SIGTERM: i32 = 15;
/// For a call of the system to end.
const CALL_MAX: Duration = Duration::from_secs(60);

/// The program that is tested.
pub(crate) fn this_program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_loopwarden"))
}

/// A copy of the program that is tested: what is built during a long run must not get into it.
pub(crate) fn program_of_run(folder: &Path) -> PathBuf {
    fs::create_dir_all(folder).expect("a folder");
    let copy = folder.join("loopwarden");
    fs::copy(this_program(), &copy).expect("a copy of the program");
    copy
}

/// Whether a process that was asked to end has done so. Until it listens to signals, the signal itself ends it.
pub(crate) fn has_obeyed(status: ExitStatus) -> bool {
    status.success() || status.signal() == Some(SIGTERM)
}

/// Removes a folder as far as that goes: one in which a disk is mounted stays, and the standard library would try for ever.
pub(crate) fn remove(folder: &Path) {
    let _ = Command::new("rm").args(["-rf", "--"]).arg(folder).stderr(Stdio::null()).status();
}

/// One `loopwarden run`.
pub(crate) struct Process {
    pub(crate) name: String,
    /// What the next start runs.
    pub(crate) program: PathBuf,
    arguments: Vec<String>,
    dir: PathBuf,
    child: Option<Child>,
    /// What starts have in their environment.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) starts: u32,
    pub(crate) is_stopped: bool,
}

impl Process {
    /// An instance with a directory below `root`; not started.
    pub(crate) fn new(root: &Path, options: &KafkaOptions, name: &str, lanes: u32, more: &[&str]) -> Self {
        let topics = &options.topics;
        let sets = [
            format!("policy={}/tests/chaos/policy.toml", env!("CARGO_MANIFEST_DIR")),
            format!("time.lateness_ms={LATENESS_MS}"),
            format!("kafka.bootstrap_servers={}", options.bootstrap_servers),
            format!("kafka.group={}", options.app),
            format!("kafka.input={}", topics.input),
            format!("kafka.commands={}", topics.commands),
            format!("kafka.state={}", topics.state),
            format!("kafka.dlq={}", topics.dead_letters),
        ];
        // An earlier program does not know it.
        let protocol = (options.group_protocol != GroupProtocol::Classic)
            .then(|| format!("kafka.group_protocol={}", options.group_protocol.as_str()));
        Self::with(root, name, lanes, sets.into_iter().chain(protocol).chain(more.iter().map(|set| (*set).to_owned())))
    }

    /// The same on a log of its own.
    pub(crate) fn embedded(root: &Path, name: &str, lanes: u32, more: &[String]) -> Self {
        Self::with(root, name, lanes, more.iter().cloned())
    }

    fn with(root: &Path, name: &str, lanes: u32, more: impl Iterator<Item = String>) -> Self {
        let dir = root.join(name);
        fs::create_dir_all(&dir).expect("a directory");
        let sets =
            ["mode=live".to_owned(), format!("instance={name}"), format!("lanes={lanes}"), "http.listen=127.0.0.1:0".to_owned()];
        let mut arguments = vec![
            "run".to_owned(),
            "--log-format=json".to_owned(),
            "--log-level=info,loopwarden_lane::thread::rebalance=debug,loopwarden::finding=off".to_owned(),
        ];
        arguments.push(format!("--data-dir={}", dir.join("data").display()));
        for set in sets.into_iter().chain(more) {
            arguments.extend(["--set".to_owned(), set]);
        }
        let (name, program, environment) = (name.to_owned(), this_program(), Vec::new());
        Self { name, program, arguments, dir, child: None, environment, starts: 0, is_stopped: false }
    }

    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(self.log()).expect("a log file");
        let ready = File::create(self.greeting_file()).expect("a file");
        let mut command = Command::new(&self.program);
        // What is said to this program in the environment would be a setting there.
        told_nothing(&mut command);
        command.envs(self.environment.iter().cloned());
        let child = command.args(&self.arguments).stdin(Stdio::null()).stdout(ready).stderr(log).spawn().expect("a process");
        self.child = Some(child);
        self.starts += 1;
        self.is_stopped = false;
    }

    /// Where its log lines go, those of all its lives.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The last lines of its log.
    pub(crate) fn said_last(&self, lines: usize) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let mut said: Vec<String> = log.lines().rev().take(lines).map(str::to_owned).collect();
        said.reverse();
        said
    }

    /// Of its own, with everything about it.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Everything it keeps.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Its database.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.data_dir().join("state")
    }

    /// The running process, for what the system says of it.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.id().is_some()
    }

    /// Where it says, in each life, that all its tasks run.
    pub(crate) fn greeting_file(&self) -> PathBuf {
        self.dir.join("ready")
    }

    /// What it has said when all its tasks ran.
    fn greeting(&self) -> String {
        fs::read_to_string(self.greeting_file()).unwrap_or_default()
    }

    /// Whether it has said that all its tasks run.
    pub(crate) fn is_ready(&self) -> bool {
        self.greeting().contains("ready:")
    }

    /// How it ended, if it did by itself.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let ended = self.child.as_mut()?.try_wait().expect("a status")?;
        self.child = None;
        Some(ended)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("waited for");
        }
    }

    /// The disk is gone with the host.
    pub(crate) fn lose_disk(&self) {
        assert!(self.child.is_none());
        remove(&self.data_dir());
    }

    pub(crate) fn freeze(&mut self) {
        self.signal("STOP");
        self.is_stopped = true;
    }

    /// The same, and waits until none of its threads is within a call of the system.
    pub(crate) fn freeze_between_calls(&mut self) {
        self.freeze();
        let deadline = Deadline::after(CALL_MAX);
        // It may have ended by itself.
        while !self.states().iter().all(|state| matches!(state, 'T' | 'Z' | 'X')) {
            assert!(!deadline.is_over(), "threads of {} do not stop: {:?}", self.name, self.states());
            thread::park_timeout(LOOK);
        }
    }

    /// The states of its threads as the system names them: `T` is stopped.
    fn states(&self) -> Vec<char> {
        let threads = self.id().and_then(|id| fs::read_dir(format!("/proc/{id}/task")).ok());
        let stats =
            threads.into_iter().flatten().flatten().filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
        // The name before it may contain anything.
        stats.filter_map(|stat| stat.rsplit_once(')')?.1.trim_start().chars().next()).collect()
    }

    pub(crate) fn thaw(&mut self) {
        self.signal("CONT");
        self.is_stopped = false;
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let Some(child) = &self.child else { return };
        let sent = Command::new("/bin/kill").args([format!("-{name}"), child.id().to_string()]).status().expect("/bin/kill");
        assert!(sent.success(), "no signal {name} to {}", self.name);
    }

    /// Waits until it has ended by itself; `None` when it does not.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Deadline::after(patience);
        loop {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            if deadline.is_over() {
                return None;
            }
            thread::park_timeout(LOOK);
        }
    }

    /// Asks it to end, and waits for that.
    pub(crate) fn finish(&mut self, signal: &str) -> ExitStatus {
        self.signal(signal);
        self.wait(Duration::from_secs(60)).unwrap_or_else(|| panic!("{} does not end: see {}", self.name, self.log().display()))
    }

    /// How often its log says something.
    pub(crate) fn told(&self, words: &str) -> usize {
        let text = fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&text).matches(words).count()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
