//! A `loopwarden run` on a topic, as `pipeline`, `race` and `latency` measure it: its configuration, its topics, its process.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::watched::{Watched, until};
use crate::process::{PATIENCE, free_port, is_ready};

/// What is to run.
pub(crate) struct Plan<'a> {
    pub(crate) bootstrap: &'a str,
    /// Of its group; its topics begin with it.
    pub(crate) name: &'a str,
    /// The topic that it reads.
    pub(crate) input: &'a str,
    pub(crate) profile: &'a str,
    pub(crate) lanes: usize,
    pub(crate) partitions: i32,
    /// Where its configuration, its state and its log lie.
    pub(crate) dir: &'a Path,
}

/// A process and what it reads and writes. Dropping it ends it.
pub(crate) struct Subject {
    pub(crate) process: Watched,
    pub(crate) http: u16,
    pub(crate) state: PathBuf,
    config: PathBuf,
    log: PathBuf,
}

/// The topic of the commands of a group.
pub(crate) fn commands(name: &str) -> String {
    format!("{name}-commands")
}

impl Subject {
    /// Makes its topics, and starts it.
    pub(crate) fn start(plan: &Plan<'_>) -> Self {
        let Plan { bootstrap, name, input, profile, lanes, .. } = plan;
        let dir = plan.dir.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let (config, state, log, http) = (dir.join("loopwarden.toml"), dir.join("data"), dir.join("log"), free_port());
        let text = format!(
            "mode = \"live\"\npolicy = \"{profile}\"\ninstance = \"bench\"\nlanes = {lanes}\ndata_dir = \"{}\"\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n\
             [kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{name}\"\nstart = \"earliest\"\ninput = \"{input}\"\n\
             commands = \"{}\"\nstate = \"{name}-state\"\ndlq = \"{name}-dlq\"\n",
            state.display(),
            commands(name),
        );
        std::fs::write(&config, text).unwrap();
        let partitions = plan.partitions.to_string();
        let create = ["topics", "create", "--partitions", &partitions, "--config"];
        let mut topics = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        Watched::start("loopwarden topics create", topics.args(create).arg(&config), &log).finish();
        Self { process: run(&config, &log), http, state, config, log }
    }

    pub(crate) fn until_ready(&self) {
        until(&[&self.process], "it is ready", PATIENCE * 10, || is_ready(self.http));
    }

    /// Starts it again after its end, on what is left of its state.
    pub(crate) fn again(&mut self) {
        self.process = run(&self.config, &self.log);
    }
}

fn run(config: &Path, log: &Path) -> Watched {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    Watched::start("loopwarden run", command.args(["run", "--config"]).arg(config), log)
}
