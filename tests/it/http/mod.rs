//! The listener: the real binary over a plain socket, and the route table with a process that has no lanes.

mod answers;
mod binding;
mod chat;
mod check;
pub(crate) mod client;
mod embedded;
mod follow;
mod hooks;
mod hostile;
mod links;
mod listing;
mod otlp;
mod otlp_out;
mod quality;
mod readme;
mod reload;
mod same;
pub(crate) mod sidecar;
mod states;
mod stops;
mod table;
mod watch;
mod webhooks;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, time::Duration};

use client::{Answer, Client, PATIENCE};
use loopwarden::clock::Deadline;
use serde_json::Value;

use crate::bounded::{START_WAIT, bounded};
use crate::environment::told_nothing;

/// Between two questions: a process answers fifty a second, and whoever asks more often is sent away.
pub(crate) const PAUSE: Duration = Duration::from_millis(40);

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory of one test. Not the system's temporary one: state is refused there.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let name = format!("http-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A process that was killed may have had the same id, and left its state.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running process, killed with this value.
pub(crate) struct Running {
    child: Child,
    pub(crate) client: Client,
    /// What it printed when it was ready.
    greeting: String,
}

impl Running {
    /// Starts it on a directory and waits until it is ready.
    pub(crate) fn start(dir: &Path, settings: &[&str]) -> Self {
        Self::start_with(dir, &["--log-level", "warn"], settings)
    }

    /// The same with arguments of its own.
    pub(crate) fn start_with(dir: &Path, arguments: &[&str], settings: &[&str]) -> Self {
        Self::of(dir, "run", arguments, settings)
    }

    /// A process that may open so many files.
    pub(crate) fn limited(dir: &Path, files: u32, settings: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_loopwarden")]);
        Self::by(command, dir, &[], ("run", &["--log-level", "warn"]), settings)
    }

    /// A process that runs this command.
    fn of(dir: &Path, verb: &str, arguments: &[&str], settings: &[&str]) -> Self {
        Self::within(dir, &[], (verb, arguments), settings)
    }

    /// The same with variables of its environment.
    pub(crate) fn within(dir: &Path, variables: &[(&str, &str)], (verb, arguments): (&str, &[&str]), settings: &[&str]) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        Self::by(command, dir, variables, (verb, arguments), settings)
    }

    fn by(
        mut command: Command,
        dir: &Path,
        variables: &[(&str, &str)],
        (verb, arguments): (&str, &[&str]),
        settings: &[&str],
    ) -> Self {
        told_nothing(&mut command);
        command.envs(variables.iter().copied());
        command.arg(verb).args(arguments).arg("--set").arg(format!("data_dir={}", dir.join("data").display()));
        for setting in ["http.listen=127.0.0.1:0", "instance=lw-0", "lanes=2"].iter().chain(settings) {
            command.args(["--set", setting]);
        }
        let errors = fs::File::create(dir.join("stderr")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn().unwrap();
        let mut greeting = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The last line of the greeting is the one that waits for a command.
        let is_ready = bounded(child.id(), START_WAIT, || {
            while !greeting.contains("/v1/commands?") {
                let Some(line) = lines.next() else { return false };
                greeting.push_str(&line.unwrap());
                greeting.push('\n');
            }
            true
        });
        assert!(
            is_ready,
            "it ended before it was ready, or was not ready within {START_WAIT:?}: {greeting}\n{}",
            fs::read_to_string(dir.join("stderr")).unwrap_or_default()
        );
        let address = greeting.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        Self { child, client: Client::new(address), greeting }
    }

    /// What it said that it may need of memory, and what it holds now. MiB.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let said = self.greeting.split("memory: up to ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let held = status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        (said, held.unwrap() / 1_024)
    }

    /// As the power goes: no farewell.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits. Its exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Posts one event; it must be accepted.
    #[track_caller]
    pub(crate) fn accept(&self, event: &Value) {
        let answer = self.client.post("/v1/events", "application/json", event.to_string().as_bytes());
        assert_eq!((answer.status, answer.text.trim()), (202, r#"{"accepted":1,"rejected":[]}"#), "{event}");
    }

    /// Commands after a position, as soon as there is one; the position to go on from.
    #[track_caller]
    pub(crate) fn commands(&self, query: &str) -> (Vec<Value>, String) {
        let answer = self.client.get(&format!("/v1/commands?{query}"));
        assert_eq!(answer.status, 200, "{}", answer.text);
        let value = answer.json();
        let next = value["next"].as_str().unwrap().to_owned();
        (value["commands"].as_array().unwrap().clone(), next)
    }

    /// Commands from the beginning, until there are enough.
    #[track_caller]
    pub(crate) fn commands_until(&self, query: &str, done: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), "0".to_owned());
        while !done(&all) {
            let (more, next) = self.commands(&format!("wait=30s&{query}&after={after}"));
            assert!(!more.is_empty(), "nothing more came: {all:?}");
            all.extend(more);
            after = next;
        }
        all
    }

    /// Asks until the answer is so.
    #[track_caller]
    pub(crate) fn until(&self, path: &str, is_so: impl Fn(&Answer) -> bool) -> Answer {
        let deadline = Deadline::after(PATIENCE);
        loop {
            let answer = self.client.get(path);
            if is_so(&answer) {
                return answer;
            }
            assert!(!deadline.is_over(), "{path}: {}", answer.text);
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Asks until the answer, JSON, is so.
    #[track_caller]
    pub(crate) fn json_until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.until(path, |answer| is_so(&answer.json())).json()
    }

    /// Waits until the only agent of a session has so many steps, and what was said about them is in the feed.
    #[track_caller]
    pub(crate) fn until_said(&self, session_id: &str, steps: usize) {
        let has_all = |session: &Value| session["agents"][0]["steps"].as_array().is_some_and(|found| found.len() == steps);
        self.json_until(&format!("/sessions/{session_id}"), has_all);
        // This answer waits for the sync of all that is written: what is not durable is not in the feed.
        self.json_until(&format!("/v1/state/{session_id}"), |state| state["active"].is_array());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call that failed, always the same one in its session.
pub(crate) fn failed_call(session_id: &str, number: usize) -> Value {
    serde_json::json!({
        "id": format!("{session_id}-{number}"),
        "kind": "tool",
        "session_id": session_id,
        "tool": "Bash",
        "args": { "command": "cargo test -p core" },
        "outcome": "error",
    })
}
