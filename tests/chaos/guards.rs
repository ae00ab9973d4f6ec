//! Guards beside agents: real processes, killed and started again, and what asks them.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};
use std::{fs::File, net::TcpStream, os::unix::net::UnixStream, time::Duration};

use loopwarden::{clock::Deadline, log::kafka::KafkaOptions};
use serde_json::{Value, json};

use crate::environment::told_nothing;
use crate::fleet::Dice;

/// What an agent waits for an answer. Longer than a guard that was killed can take for one.
const DEADLINE: Duration = Duration::from_secs(2);

/// Where an agent asks.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Socket(PathBuf),
    Address(String),
}

impl Place {
    /// One question. An error: nobody answered, or the answer was cut off.
    pub(crate) fn ask(&self, event: &Value) -> io::Result<Value> {
        let body = json!({
            "event": event, "record": false, "client": { "name": "chaos", "can": ["deny"] }, "deadline_ms": DEADLINE.as_millis() as u64,
        });
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                talk(stream, &body.to_string())
            }
            Self::Address(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(DEADLINE))?;
                talk(stream, &body.to_string())
            }
        }
    }
}

fn talk(mut stream: impl Read + Write, body: &str) -> io::Result<Value> {
    let length = body.len();
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(head.to_owned()));
    }
    Ok(serde_json::from_str(body)?)
}

/// One guard.
struct One {
    program: PathBuf,
    arguments: Vec<String>,
    socket: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    /// When it is started again.
    back: Option<Deadline>,
}

impl One {
    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let mut command = Command::new(&self.program);
        told_nothing(&mut command);
        // What it keeps over a kill lies beside its socket.
        command.env("XDG_STATE_HOME", self.socket.with_extension("state"));
        let child = command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(child.expect("a guard"));
        self.back = None;
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("waited for");
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Guards that die now and then.
pub(crate) struct Guards {
    guards: Vec<One>,
    dice: Dice,
    /// Mean time between two kills. Milliseconds.
    pause_ms: u64,
    next: Deadline,
    /// Guards killed with `kill -9`.
    pub(crate) kills: u64,
}

impl Guards {
    /// So many that follow the state topic.
    pub(crate) fn of_topic(root: &Path, program: &Path, options: &KafkaOptions, count: usize) -> Self {
        let topics = &options.topics;
        let sets = [
            format!("kafka.bootstrap_servers={}", options.bootstrap_servers),
            format!("kafka.group={}", options.app),
            format!("kafka.input={}", topics.input),
            format!("kafka.commands={}", topics.commands),
            format!("kafka.state={}", topics.state),
            format!("kafka.dlq={}", topics.dead_letters),
        ];
        let sets = sets.into_iter().flat_map(|set| ["--set".to_owned(), set]);
        Self::new(root, program, &["--state".to_owned(), "kafka".to_owned()].into_iter().chain(sets).collect::<Vec<_>>(), count)
    }

    /// So many that follow the commands of a process with a log of its own.
    pub(crate) fn of_process(root: &Path, program: &Path, address: &str, count: usize) -> Self {
        Self::new(root, program, &["--upstream".to_owned(), format!("http://{address}")], count)
    }

    fn new(root: &Path, program: &Path, source: &[String], count: usize) -> Self {
        fs::create_dir_all(root).expect("a folder");
        let guard = |number: usize| {
            let (socket, log) = (root.join(format!("guard-{number}.sock")), root.join(format!("guard-{number}.log")));
            let own = ["guard".to_owned(), "--log-format=json".to_owned(), "--socket".to_owned(), socket.display().to_string()];
            let arguments = own.into_iter().chain(source.iter().cloned()).collect();
            let mut one = One { program: program.to_owned(), arguments, socket, log, child: None, back: None };
            one.start();
            one
        };
        let guards = (0..count).map(guard).collect();
        Self { guards, dice: Dice::new(0), pause_ms: 0, next: Deadline::after(Duration::ZERO), kills: 0 }
    }

    /// From now on one of them dies after such a pause, in the mean.
    pub(crate) fn disturbed(mut self, seed: u64, pause_ms: u64) -> Self {
        (self.dice, self.pause_ms) = (Dice::new(seed ^ 0x9a4d), pause_ms);
        self.next = self.pause();
        self
    }

    fn pause(&mut self) -> Deadline {
        Deadline::after(Duration::from_millis(self.pause_ms / 10 + self.dice.below(self.pause_ms * 9 / 5 + 1)))
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        self.guards.iter().map(|guard| Place::Socket(guard.socket.clone())).collect()
    }

    /// Kills and starts what is due.
    pub(crate) fn tend(&mut self) {
        self.revive(false);
        if self.pause_ms == 0 || !self.next.is_over() {
            return;
        }
        self.next = self.pause();
        let at = self.dice.below(self.guards.len() as u64) as usize;
        if self.guards[at].child.is_some() {
            self.guards[at].kill();
            self.kills += 1;
            self.guards[at].back = Some(Deadline::after(Duration::from_millis(self.dice.below(1_000))));
        }
    }

    /// None dies any more, and all run.
    pub(crate) fn calm(&mut self) {
        self.pause_ms = 0;
        self.revive(true);
    }

    fn revive(&mut self, at_once: bool) {
        for guard in &mut self.guards {
            if guard.back.as_ref().is_some_and(|back| at_once || back.is_over()) {
                guard.start();
            }
        }
    }
}
