//! Who races: each name says what it is, and starts as a process of its own that reads the topic until it is asked to end.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::watched::Watched;
use crate::process::{create_topics, scratch};
use crate::subject::{Plan, Subject, commands};

/// Kafka Streams and Flink as in earlier races with RocksDB, and the newest of both with either store.
pub(crate) const LINE_UP: [&str; 9] = [
    "floor",
    "hackeurope",
    "default",
    "streams-4.1.0-rocksdb",
    "streams-4.4.0-rocksdb",
    "streams-4.4.0-memory",
    "flink-2.2.1-rocksdb",
    "flink-2.3.0-rocksdb",
    "flink-2.3.0-heap",
];

/// The profile that does the job of the others, among other things.
pub(crate) const OURS: &str = "hackeurope";

/// One of the race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System<'a> {
    /// The job by hand.
    Floor,
    /// loopwarden with a profile.
    Profile(&'a str),
    /// A framework of a version, with a store.
    Framework(&'a str, &'a str, &'a str),
}

impl<'a> System<'a> {
    /// `floor`, a profile, or `streams-VERSION-STORE` or `flink-VERSION-STORE`.
    pub(crate) fn of(name: &'a str) -> Self {
        match *name.split('-').collect::<Vec<_>>() {
            ["floor"] => Self::Floor,
            [kind @ ("streams" | "flink"), version, store] => Self::Framework(kind, version, store),
            _ => Self::Profile(name),
        }
    }

    /// As the page calls it.
    pub(crate) fn title(self) -> String {
        match self {
            Self::Floor => "the job by hand in Rust, no durable state".to_owned(),
            Self::Profile(profile) => format!("loopwarden, profile `{profile}`"),
            Self::Framework("streams", version, "rocksdb") => format!("Kafka Streams {version}, RocksDB"),
            Self::Framework("streams", version, store) => format!("Kafka Streams {version}, store in {store}"),
            Self::Framework(_, version, "rocksdb") => format!("Flink {version}, RocksDB"),
            Self::Framework(_, version, store) => format!("Flink {version}, {store}"),
        }
    }

    /// Whether it blocks the same sessions as the floor: other detectors block others too.
    pub(crate) fn does_the_same(self) -> bool {
        !matches!(self, Self::Profile(profile) if profile != OURS)
    }

    /// Starts it as a group of this name, on topics of its own.
    pub(crate) fn start(self, plan: &Plan<'_>) -> Watched {
        let (name, output) = (plan.name, commands(plan.name));
        let mut command = match self {
            Self::Profile(profile) => return Subject::start(&Plan { profile, ..*plan }).process,
            Self::Floor => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--floor", plan.bootstrap, plan.input, &output, name]);
                command
            }
            Self::Framework(kind, version, store) => {
                let state = plan.dir.join(name);
                std::fs::create_dir_all(&state).unwrap();
                let mut command = Command::new("java");
                command.args([
                    "-Xmx2g",
                    "--add-opens=java.base/java.util=ALL-UNNAMED",
                    "--add-opens=java.base/java.lang=ALL-UNNAMED",
                ]);
                command.arg("-cp").arg(class_path(kind, version)).arg("Job");
                command.args([plan.bootstrap, plan.input, &output, name]).arg(state).arg(store);
                command
            }
        };
        create_topics(plan.bootstrap, &[&output], plan.partitions);
        Watched::start(name, &mut command, &plan.dir.join(format!("{name}.log")))
    }

    /// Fetches and compiles what it needs. The error says what is missing.
    pub(crate) fn prepare(self) -> Result<(), String> {
        let Self::Framework(kind, version, _) = self else { return Ok(()) };
        let (here, lib, classes) = (here(), lib(kind, version), classes(kind, version));
        if !lib.is_dir() {
            // It appears whole or not at all.
            let unfinished = lib.with_extension(std::process::id().to_string());
            let mut maven = Command::new("mvn");
            maven.args(["-q", "-B", "-f"]).arg(here.join(kind).join("pom.xml")).arg("dependency:copy-dependencies");
            maven.arg(format!("-Draced.version={version}")).arg(format!("-DoutputDirectory={}", unfinished.display()));
            succeed("mvn", &mut maven)?;
            std::fs::rename(&unfinished, &lib).map_err(|error| format!("{}: {error}", lib.display()))?;
        }
        let mut compiler = Command::new("javac");
        compiler.args(["-nowarn", "-d"]).arg(&classes).arg("-cp").arg(lib.join("*"));
        succeed("javac", compiler.arg(here.join("Call.java")).arg(here.join(kind).join("Job.java")))
    }
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/race")
}

/// Where the jars of a framework are kept.
fn lib(kind: &str, version: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("race-{kind}-{version}-lib"))
}

fn classes(kind: &str, version: &str) -> PathBuf {
    scratch("race").join(format!("{kind}-{version}-classes"))
}

fn class_path(kind: &str, version: &str) -> String {
    format!("{}/*:{}", lib(kind, version).display(), classes(kind, version).display())
}

fn succeed(name: &str, command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let mut trouble = format!("{name} failed ({})", output.status);
    for line in String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).lines().take(3) {
        let _ = write!(trouble, ": {line}");
    }
    Err(trouble)
}
