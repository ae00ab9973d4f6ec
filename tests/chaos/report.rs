//! What a run says in the end, and where it is kept.

use std::{collections::BTreeMap, path::Path};
use std::{fmt, fs};

use loopwarden::{clock, event::EventTime};

use crate::{acts::Judged, kill_loop::Plan, scenario::Verdict};

/// Lines of the processes' logs that are counted: a run in which none of this happened proves little.
pub(crate) const TOLD: [(&str, &str); 8] = [
    ("tasks restored", "task restored"),
    ("transactions aborted", "transaction aborted"),
    ("outcomes unknown", "nobody knows how the transaction ended"),
    ("lanes fenced", "fenced; restoring"),
    ("assignments", "tasks assigned"),
    ("revocations", "tasks revoked"),
    ("losses", "tasks lost"),
    ("log troubles", "log in trouble"),
];

/// Kinds of fault, as the promise names them.
const KINDS: [(&str, &[&str]); 6] = [
    ("lost", &["lost"]),
    ("doubled", &["doubled"]),
    ("reordered", &["reordered"]),
    ("torn", &["torn"]),
    ("wiped tasks", &["wiped"]),
    ("open transactions", &["open"]),
];

/// One run.
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) kills: u64,
    pub(crate) guards_killed: u64,
    /// Acts of operators, and calls of agents who asked.
    pub(crate) judged: Judged,
    /// Of the earlier program and of this one, after those the group began with.
    pub(crate) starts: Option<(u64, u64)>,
    /// Rows of what was done.
    pub(crate) done: String,
    pub(crate) produced: u64,
    /// Events of people beside those.
    pub(crate) acted: u64,
    /// Events in the topic: its client writes some twice when their broker dies.
    pub(crate) written: u64,
    pub(crate) backlog_max: u64,
    pub(crate) killed_ms: u64,
    pub(crate) settled_ms: u64,
    pub(crate) took_ms: u64,
    pub(crate) told: [(&'static str, usize); 8],
    pub(crate) exits: Vec<String>,
    pub(crate) verdict: Verdict,
}

pub(crate) fn now() -> String {
    EventTime(clock::now_ms()).to_rfc3339()
}

pub(crate) fn machine() -> String {
    let first = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {}, {} of memory, shared", first("/proc/cpuinfo", "model name"), first("/proc/meminfo", "MemTotal"))
}

impl Run {
    pub(crate) fn is_good(&self) -> bool {
        self.is_exact() && (self.judged.is_in_time() || !self.plan.is_kept)
    }

    /// Without what came late: that is judged where somebody has asked for the run, since a test goes by no clock.
    fn is_exact(&self) -> bool {
        self.verdict.problems.is_empty() && self.produced == self.plan.events && self.kills >= self.plan.kills
    }

    /// What its page is called besides the day.
    pub(crate) const fn kind(&self) -> &'static str {
        if self.starts.is_some() { "-upgrade" } else { "" }
    }
}

/// Writes a page under `tests/chaos/runs/`, named after the day, and after `LOOPWARDEN_CHAOS_NAME` where that is set.
pub(crate) fn keep(kind: &str, page: &str) {
    let date: String = EventTime(clock::now_ms()).to_rfc3339().chars().take(10).collect();
    let name = std::env::var("LOOPWARDEN_CHAOS_NAME").map_or_else(|_| String::new(), |name| format!("-{name}"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/chaos/runs/{date}{kind}{name}.md"));
    fs::write(&path, page).expect("a file");
}

/// How many ended by themselves, and how.
pub(crate) fn exit_counts(exits: &[String]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    exits.iter().for_each(|exit| *counts.entry(exit).or_default() += 1);
    let parts: Vec<String> = counts.iter().map(|(exit, count)| format!("{count} with {exit}")).collect();
    if parts.is_empty() { "0".to_owned() } else { parts.join(", ") }
}

/// The faults of a verdict, a row for each kind, none left out.
pub(crate) fn fault_rows(verdict: &Verdict) -> String {
    let count = |is_meant: &dyn Fn(&&str) -> bool| verdict.problems.iter().filter(|(kind, _)| is_meant(kind)).count();
    let mut rows = String::new();
    for (kind, kinds) in KINDS {
        rows += &format!("| {kind} | **{}** |\n", count(&|kind| kinds.contains(kind)));
    }
    let known: Vec<&str> = KINDS.iter().flat_map(|(_, kinds)| kinds.iter().copied()).collect();
    let others = count(&|kind| !known.contains(kind));
    rows + &format!("| differences to the uninterrupted run: bytes, rows, state, offsets | **{others}** |\n")
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { kills, events, seed, pause_ms, processes, lanes, partitions, .. } = &self.plan;
        let audit = &self.verdict.audit;
        let expected: usize = self.verdict.expected.outputs.values().map(Vec::len).sum();
        let seconds = |ms: u64| format!("{}.{} s", ms / 1_000, ms % 1_000 / 100);
        let title = if self.is_exact() { "exactly once" } else { "FAILED" };
        writeln!(f, "# Kill loop: {title}{}\n", self.judged.title())?;
        writeln!(
            f,
            "    LOOPWARDEN_CHAOS_KILLS={kills} LOOPWARDEN_CHAOS_EVENTS={events} LOOPWARDEN_CHAOS_SEED={seed} LOOPWARDEN_CHAOS_PAUSE_MS={pause_ms} cargo test --release --locked --test chaos\n"
        )?;
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| when | {} |", EventTime(clock::now_ms()).to_rfc3339())?;
        writeln!(f, "| machine | {} |", machine())?;
        writeln!(f, "| broker | one, Apache Kafka 4.1.0, on the same machine |")?;
        writeln!(
            f,
            "| processes | {processes} of {lanes} lanes, {partitions} partitions, swarm stage {} |",
            if loopwarden::server::SWARM { "on" } else { "off" }
        )?;
        if let Some((old, new)) = self.starts {
            writeln!(f, "| programs | all began with an earlier one; of the starts after that {old} ran it, {new} this one |")?;
        }
        writeln!(f, "| events | {} |", self.produced)?;
        writeln!(f, "| events that the feeder's client wrote twice | {} |", self.written - self.produced - self.acted)?;
        writeln!(f, "| most events of one partition without a commit, while more came | {} |", self.backlog_max)?;
        writeln!(f, "| `kill -9` of processes | {} |", self.kills)?;
        writeln!(f, "| `kill -9` of guards that follow the state topic | {} |", self.guards_killed)?;
        f.write_str(&self.done)?;
        write!(f, "{}", self.judged)?;
        f.write_str(&fault_rows(&self.verdict))?;
        let of_swarm = |(task, _): &(&String, &Vec<_>)| task.starts_with("swarm/");
        let swarm: usize = self.verdict.expected.outputs.iter().filter(of_swarm).map(|(_, outputs)| outputs.len()).sum();
        writeln!(f, "| commands and dead letters | {expected}, of them {swarm} of the swarm stage |")?;
        writeln!(f, "| Positions compared with the outputs before them | {} |", audit.commits)?;
        for (name, count) in self.told {
            writeln!(f, "| {name} | {count} |")?;
        }
        writeln!(f, "| processes that ended by themselves | {} |", exit_counts(&self.exits))?;
        let mut first = audit.first_commits.clone();
        first.sort_unstable();
        if let Some(last) = first.last() {
            let at = |part: usize| first[(first.len() - 1) * part / 100];
            writeln!(
                f,
                "| process start to first commit visible, {} restarts with their directory | median {}, p90 {}, longest {}; within 3 s: {} |",
                first.len(),
                seconds(at(50)),
                seconds(at(90)),
                seconds(*last),
                first.iter().filter(|ms| **ms <= 3_000).count()
            )?;
        }
        writeln!(
            f,
            "| killing, until settled, in all | {}, {}, {} |",
            seconds(self.killed_ms),
            seconds(self.settled_ms),
            seconds(self.took_ms)
        )?;
        writeln!(f, "| the uninterrupted run | {} |", seconds(self.verdict.reference_took.as_millis() as u64))?;
        for (kind, words) in &self.verdict.problems {
            writeln!(f, "\n**{kind}** {words}")?;
        }
        Ok(())
    }
}
