//! How long partitions are without their warden: from `kill -9` of a process, and from SIGTERM with a start at once (a rolling restart), to
//! the first command of each of its partitions.
//!
//! `cargo bench --bench failover -- [--processes 2] [--sessions 1000000] [--steps 2] [--partitions 12] [--lanes 1] [--kills 6]
//! [--restarts 6] [--keep-disk] [--set 'kafka.KEY = VALUE']… [--program loopwarden]`
//!
//! Sessions are fed first, so that there is state to restore. Then each partition gets, ten times a second, a session that makes the same
//! failing call three times. A `read_committed` reader notes when its nudge comes. A killed process starts again on an empty disk, unless
//! `--keep-disk` says otherwise, and another one is killed next: who takes over never had these partitions.
//!
//! The parts come from where they can be seen: the group's list of members, asked every 50 ms; the log lines of whoever took over; the
//! reader. The broker has the time-outs that brokers have by default, not those of the tests.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    dead_code,
    reason = "a benchmark reads the clock, prints, and stops when something is missing"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use loopwarden::{clock, event::EventTime};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use serde_json::Value;

#[path = "../kafka/broker.rs"]
mod broker;
#[path = "probes.rs"]
mod probes;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
use probes::Probes;
use process as world;
use process::watched::{Watched, until};
use process::{free_port, get, resident_mib, scratch};

/// As a broker has it where nobody set it. Seconds of a fail-over hang on both.
const BROKER: &str = "transaction.abort.timed.out.transaction.cleanup.interval.ms=10000\ngroup.min.session.timeout.ms=6000\n";
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest wait for anything: a million sessions are fed in it.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Debug, Clone)]
struct Options {
    processes: usize,
    sessions: u64,
    steps: u64,
    partitions: u32,
    lanes: u32,
    kills: usize,
    restarts: usize,
    keep_disk: bool,
    sets: Vec<String>,
    program: PathBuf,
}

fn options() -> Options {
    let mut options = Options {
        processes: 2,
        sessions: 1_000_000,
        steps: 2,
        partitions: 12,
        lanes: 1,
        kills: 6,
        restarts: 6,
        keep_disk: false,
        sets: Vec::new(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_loopwarden")),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--processes" => options.processes = value().parse().unwrap(),
            "--sessions" => options.sessions = value().parse().unwrap(),
            "--steps" => options.steps = value().parse().unwrap(),
            "--partitions" => options.partitions = value().parse().unwrap(),
            "--lanes" => options.lanes = value().parse().unwrap(),
            "--kills" => options.kills = value().parse().unwrap(),
            "--restarts" => options.restarts = value().parse().unwrap(),
            "--keep-disk" => options.keep_disk = true,
            "--set" => options.sets.push(value()),
            "--program" => options.program = PathBuf::from(value()),
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn main() {
    if std::env::var_os("KAFKA_BROKER_PROPERTIES").is_none() {
        // Before any thread: the broker's harness reads it.
        let again = Command::new(std::env::current_exe().unwrap())
            .args(std::env::args().skip(1))
            .env("KAFKA_BROKER_PROPERTIES", BROKER)
            .status();
        std::process::exit(again.unwrap().code().unwrap_or(1));
    }
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    let mut fleet = Fleet::start(bootstrap, options.clone());
    let fed = Instant::now();
    fleet.feed();
    fleet.settle();
    let state_mib = fleet.disk_bytes() >> 20;
    println!(
        "{} sessions of {} steps in {} partitions, {} processes of {} lanes for events; fed in {:.0} s; {state_mib} MiB of state on disk in all",
        options.sessions,
        options.steps,
        options.partitions,
        options.processes,
        options.lanes,
        fed.elapsed().as_secs_f64()
    );
    if !options.sets.is_empty() {
        println!("settings: {}", options.sets.join(", "));
    }
    let probes = Probes::start(bootstrap, &fleet);
    fleet.await_probes(&probes);
    let (mut killed, mut restarted) = (Vec::new(), Vec::new());
    for round in 0..options.kills {
        killed.push(fleet.round(round % options.processes, Ending::Kill, &probes));
    }
    for round in 0..options.restarts {
        restarted.push(fleet.round(round % options.processes, Ending::Restart, &probes));
    }
    report("kill -9", &killed);
    report("SIGTERM, started again", &restarted);
    probes.stop();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Kill,
    Restart,
}

/// One fail-over.
struct Round {
    /// Of each partition that was without a warden: its parts, and all of it. Milliseconds.
    moved: Vec<[i64; PARTS.len()]>,
    /// Longest silence of a partition that stayed where it was. Milliseconds.
    others_ms: i64,
    /// Memory of the others when it was over.
    rss_mib: u64,
}

const PARTS: [&str; 5] = [
    "until it is missed (kill: session time-out; restart: it ends)",
    "until another one, or itself, is assigned",
    "until restored",
    "until the first command is read",
    "in all",
];

fn report(name: &str, rounds: &[Round]) {
    if rounds.is_empty() {
        return;
    }
    let moved: Vec<&[i64; PARTS.len()]> = rounds.iter().flat_map(|round| &round.moved).collect();
    let at = |of: &mut Vec<i64>, part: usize| {
        of.sort_unstable();
        of[(of.len() * part / 100).min(of.len() - 1)] as f64 / 1_000.0
    };
    println!("\n{name}: {} times, {} partitions moved. Seconds:\n", rounds.len(), moved.len());
    println!("| part | p50 | p99 | most |\n|---|---|---|---|");
    for (part, words) in PARTS.iter().enumerate() {
        let mut of: Vec<i64> = moved.iter().map(|parts| parts[part]).collect();
        println!("| {words} | {:.2} | {:.2} | {:.2} |", at(&mut of, 50), at(&mut of, 99), at(&mut of, 100));
    }
    let mut others: Vec<i64> = rounds.iter().map(|round| round.others_ms).collect();
    println!(
        "\nlongest silence of a partition that stayed: {:.2} s at the median, {:.2} s at the most; memory of the others: {} MiB at the most",
        at(&mut others, 50),
        at(&mut others, 100),
        rounds.iter().map(|round| round.rss_mib).max().unwrap_or(0)
    );
}

/// One `loopwarden run`.
struct Member {
    process: Option<Watched>,
    name: String,
    dir: PathBuf,
    http: u16,
    program: PathBuf,
}

impl Member {
    fn start(&mut self) {
        let mut command = Command::new(&self.program);
        let levels = "--log-level=info,loopwarden_lane::thread::rebalance=debug,loopwarden::finding=off";
        command.args(["run", "--log-format=json", levels, "--config"]).arg(self.dir.join("loopwarden.toml"));
        self.process = Some(Watched::start(&self.name, &mut command, &self.log()));
    }

    fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Partitions of events it runs, and how many records it is behind.
    fn tasks(&self) -> Option<(BTreeSet<u32>, u64)> {
        let answer = get(self.http, "/tasks")?;
        let said: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1)?).ok()?;
        let tasks = said["tasks"].as_array()?;
        if tasks.iter().any(|task| task["state"] != "running") {
            return None;
        }
        let of_events = tasks.iter().filter(|task| task["stage"] == "session");
        let partitions = of_events.filter_map(|task| task["partition"].as_u64()).map(|partition| partition as u32).collect();
        let lag = tasks.iter().map(|task| task["lag_records"].as_u64()).sum::<Option<u64>>()?;
        Some((partitions, lag))
    }
}

struct Fleet {
    bootstrap: String,
    name: String,
    options: Options,
    members: Vec<Member>,
    watcher: BaseConsumer,
}

impl Fleet {
    fn start(bootstrap: &str, options: Options) -> Self {
        let name = format!("failover-{}", std::process::id());
        let root = scratch("failover");
        let members = (0..options.processes).map(|number| {
            let dir = root.join(format!("lw-{number}"));
            std::fs::create_dir_all(&dir).unwrap();
            let http = free_port();
            let text = format!(
                "mode = \"live\"\ninstance = \"lw-{number}\"\nlanes = {}\ndata_dir = \"{}\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
                 [kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{name}\"\ninput = \"{name}-events\"\n\
                 commands = \"{name}-commands\"\nstate = \"{name}-state\"\ndlq = \"{name}-dlq\"\n{}",
                options.lanes,
                dir.join("data").display(),
                options.sets.iter().filter_map(|set| set.strip_prefix("kafka.")).map(|set| format!("{set}\n")).collect::<String>()
            );
            std::fs::write(dir.join("loopwarden.toml"), text).unwrap();
            Member { process: None, name: format!("lw-{number}"), dir, http, program: options.program.clone() }
        });
        let mut members: Vec<Member> = members.collect();
        let mut topics = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
        topics.args(["topics", "create", "--partitions", &options.partitions.to_string(), "--config"]);
        topics.arg(members[0].dir.join("loopwarden.toml"));
        Watched::start("loopwarden topics create", &mut topics, &root.join("topics")).finish();
        members.iter_mut().for_each(Member::start);
        let watcher = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
        Self { bootstrap: bootstrap.to_owned(), name, options, members, watcher }
    }

    fn producer(&self) -> ThreadedProducer<DefaultProducerContext> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("linger.ms", "5").set("compression.type", "lz4");
        config.set("partitioner", "murmur2_random").create().unwrap()
    }

    /// Every session calls a tool so many times, and gets on.
    fn feed(&self) {
        let (producer, topic) = (self.producer(), format!("{}-events", self.name));
        for step in 0..self.options.steps {
            for number in 0..self.options.sessions {
                let session = format!("session-{number:07}");
                let json = format!(
                    r#"{{"id":"{session}.{step}","kind":"tool","session_id":"{session}","swarm_id":"crew-{}","time":{},"tool":"read_file","args":{{"path":"src/{number}/{step}.rs"}},"outcome":"ok","result":"{number} lines of part {step}, the last of them {}"}}"#,
                    number % 1_000,
                    clock::now_ms(),
                    number * 7_919 % 104_729
                );
                let mut record = BaseRecord::to(&topic).key(&session).payload(&json);
                while let Err((_, again)) = producer.send(record) {
                    record = again;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
        producer.flush(PATIENCE).unwrap();
    }

    /// Waits until every partition runs, each process has some, and nothing is left to read.
    fn settle(&self) {
        until(&self.processes(), "all is settled", PATIENCE, || {
            thread::sleep(LOOK_EVERY);
            let tasks: Vec<(BTreeSet<u32>, u64)> = self.members.iter().map(Member::tasks).collect::<Option<_>>()?;
            let (count, lag) =
                (tasks.iter().map(|(of, _)| of.len()).sum::<usize>(), tasks.iter().map(|(_, lag)| lag).sum::<u64>());
            // The probes never rest.
            let is_settled =
                count == self.options.partitions as usize && tasks.iter().all(|(of, _)| !of.is_empty()) && lag < 1_000;
            is_settled.then_some(())
        });
    }

    /// Those that run.
    fn processes(&self) -> Vec<&Watched> {
        self.members.iter().filter_map(|member| member.process.as_ref()).collect()
    }

    fn disk_bytes(&self) -> u64 {
        let of = |member: &Member| {
            let files = std::fs::read_dir(member.dir.join("data/state")).into_iter().flatten().flatten();
            files.filter_map(|file| file.metadata().ok()).map(|facts| facts.len()).sum::<u64>()
        };
        self.members.iter().map(of).sum()
    }

    /// Client ids of the group's members.
    fn listed(&self) -> Option<BTreeSet<String>> {
        let found = self.watcher.fetch_group_list(Some(&self.name), Duration::from_secs(2)).ok()?;
        Some(found.groups().first()?.members().iter().map(|member| member.client_id().to_owned()).collect())
    }

    fn await_probes(&self, probes: &Probes) {
        let all = self.options.partitions as usize;
        until(&self.processes(), "a command in each partition", PATIENCE, || (probes.seen().len() >= all).then_some(()));
    }

    /// Ends a process one way or the other, and waits until each of its partitions has a command again; then until all is as before.
    fn round(&mut self, at: usize, ending: Ending, probes: &Probes) -> Round {
        self.settle();
        let (owned, _) = self.members[at].tasks().expect("it answers");
        let logs: Vec<u64> =
            self.members.iter().map(|member| std::fs::metadata(member.log()).map_or(0, |facts| facts.len())).collect();
        let process = self.members[at].process.take().expect("it runs");
        let began_ms = clock::now_ms();
        let mut missed_ms = None;
        match ending {
            Ending::Kill => process.kill(),
            Ending::Restart => {
                assert!(process.stop().success(), "it ends as it is asked");
                missed_ms = Some(clock::now_ms());
                self.members[at].start();
            }
        }
        let prefix = format!("{}-{}-", self.name, self.members[at].name);
        let deadline = Instant::now();
        let ends = loop {
            if missed_ms.is_none()
                && self.listed().is_some_and(|listed| {
                    let of_events = |name: &&String| name.starts_with(&prefix) && !name.contains("-swarm-");
                    listed.iter().filter(of_events).count() == 0
                })
            {
                missed_ms = Some(clock::now_ms());
            }
            let restored = self.restored(&logs);
            let seen = probes.seen();
            let first = |partition: &u32| {
                let (assigned_ms, restored_ms) = *restored.get(partition)?;
                let first_ms = seen.get(partition)?.iter().copied().find(|ms| *ms >= restored_ms)?;
                Some((*partition, assigned_ms, restored_ms, first_ms))
            };
            let ends: Option<Vec<(u32, i64, i64, i64)>> = owned.iter().map(first).collect();
            if let Some(ends) = ends {
                break ends;
            }
            self.processes().iter().for_each(|process| process.assert_runs("the partitions have a warden again"));
            assert!(deadline.elapsed() < Duration::from_secs(180), "partitions {owned:?} have no warden; restored: {restored:?}");
            thread::sleep(LOOK_EVERY);
        };
        let over_ms = clock::now_ms();
        let missed_ms = missed_ms.unwrap_or(over_ms);
        let moved = ends.iter().map(|(_, assigned_ms, restored_ms, first_ms)| {
            let missed_ms = missed_ms.min(*assigned_ms);
            [
                missed_ms - began_ms,
                assigned_ms - missed_ms,
                restored_ms - assigned_ms,
                first_ms - restored_ms,
                first_ms - began_ms,
            ]
        });
        let moved: Vec<[i64; PARTS.len()]> = moved.collect();
        let rss_mib = self.processes().iter().map(|process| resident_mib(process.id())).max();
        let stayed = probes.seen().into_iter().filter(|(partition, _)| !owned.contains(partition));
        let others_ms = stayed.map(|(_, seen)| longest_gap(&seen, began_ms, over_ms)).max().unwrap_or(0);
        println!(
            "{ending:?} of {}: {} partitions, {:?}",
            self.members[at].name,
            owned.len(),
            moved.iter().max_by_key(|parts| parts[4])
        );
        if ending == Ending::Kill {
            if !self.options.keep_disk {
                let _ = std::fs::remove_dir_all(self.members[at].dir.join("data"));
            }
            self.members[at].start();
        }
        self.settle();
        Round { moved, others_ms, rss_mib: rss_mib.unwrap_or(0) }
    }

    /// Partitions of events that were restored since: when they were assigned, and when they were restored. Wall clock, milliseconds.
    fn restored(&self, logs: &[u64]) -> BTreeMap<u32, (i64, i64)> {
        let mut found = BTreeMap::new();
        for (member, from) in self.members.iter().zip(logs) {
            let text = std::fs::read(member.log()).unwrap_or_default();
            let mut assigned_ms = 0;
            for line in String::from_utf8_lossy(&text[(*from as usize).min(text.len())..]).lines() {
                let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
                let Some(time) = line["timestamp"].as_str().and_then(EventTime::parse_rfc3339) else { continue };
                match line["message"].as_str() {
                    Some("tasks assigned") => assigned_ms = time.0,
                    Some("task restored") => {
                        let partition = line["task"].as_str().and_then(|task| task.strip_prefix("session/")?.parse().ok());
                        found.extend(partition.map(|partition: u32| (partition, (assigned_ms, time.0))));
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

/// Longest silence of a partition within a time.
fn longest_gap(seen: &[i64], from_ms: i64, to_ms: i64) -> i64 {
    let within = seen.iter().copied().filter(|ms| (from_ms..=to_ms).contains(ms));
    let times: Vec<i64> = std::iter::once(from_ms).chain(within).chain(std::iter::once(to_ms)).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
}
