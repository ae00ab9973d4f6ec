//! The race: the same events, broker and transaction interval for loopwarden, for the same job on Kafka Streams and on Flink, and for that
//! job by hand, which is the floor. One after the other, in several rounds.
//!
//! `cargo bench --bench race -- [--events 900000] [--rounds 5] [--systems floor,hackeurope,…] [--partitions 4] [--source FILE] [--write]`
//! `cargo bench --bench race -- --page FILE`
//!
//! All that is measured comes from outside (`measure.rs`): CPU of the process, all its threads, over the last two fifths of the events. Before
//! them a JVM compiles. Each prints one JSON line a round; the last lines are medians with the least and the greatest round. Ratios
//! are taken within a round, so that what slows the machine slows both. In the first round the sessions are compared that each blocks.
//!
//! A framework that cannot be fetched is left out, with the reason. `--write` puts the figures into `src/docs/performance.md`; `--page` does
//! so with the kept output of an earlier race.

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

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

mod blocked;
#[path = "../../kafka/broker.rs"]
mod broker;
mod floor;
#[path = "../measure.rs"]
mod measure;
mod page;
#[path = "../process.rs"]
mod process;
#[path = "../../kafka/proxy.rs"]
mod proxy;
#[path = "../ratio.rs"]
mod ratio;
#[path = "../stream.rs"]
mod stream;
#[path = "../subject.rs"]
mod subject;
mod systems;
use measure::Track;
use process as world;
use process::{create_topics, delete_topics, scratch};
use ratio::rounded;
use subject::{Plan, commands};
use systems::{LINE_UP, System};

struct Options {
    events: usize,
    rounds: usize,
    systems: Vec<String>,
    partitions: i32,
    source: PathBuf,
    write: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *words {
        ["--floor", bootstrap, input, output, group] => floor::run(bootstrap, input, output, group),
        ["--page", file] => page::write(&page::kept(&std::fs::read_to_string(file).unwrap())),
        _ => race(&options(&words)),
    }
}

fn options(words: &[&str]) -> Options {
    let mut options = Options {
        events: 900_000,
        rounds: 5,
        systems: LINE_UP.map(str::to_owned).to_vec(),
        partitions: 4,
        source: stream::source(),
        write: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match *word {
            "--events" => options.events = value().parse().unwrap(),
            "--rounds" => options.rounds = value().parse().unwrap(),
            "--systems" => options.systems = value().split(',').map(str::to_owned).collect(),
            "--partitions" => options.partitions = value().parse().unwrap(),
            "--source" => options.source = value().into(),
            "--write" => options.write = true,
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn race(options: &Options) {
    let mut starters: Vec<System<'_>> = options.systems.iter().map(|name| System::of(name)).collect();
    let mut names: Vec<&str> = options.systems.iter().map(String::as_str).collect();
    for (name, system) in options.systems.iter().zip(starters.clone()) {
        if let Err(why) = system.prepare() {
            println!("{}", json!({"left_out": name, "why": why}));
            starters.retain(|one| *one != system);
            names.retain(|one| one != name);
        }
    }
    let Some(bootstrap) = broker::bootstrap() else { return };
    let topic = format!("race-events-{}", std::process::id());
    create_topics(bootstrap, &[&topic], options.partitions);
    // Nobody is at the end of the topic when measuring ends: some wait there, before they commit.
    let (end, all) = (options.events as u64, (options.events + options.events / 5) as u64);
    stream::produce(bootstrap, &topic, &options.source, all as usize);
    let mut lines = vec![machine(options)];
    println!("{}", lines[0]);
    let track = Track { bootstrap, topic: &topic, partitions: options.partitions, warm_up: end * 3 / 5, end };
    let mut race = Race { track, all, blocked_by_first: None };
    for round in 0..options.rounds {
        // Each begins once, then is second, and so on: nobody always follows the same.
        for at in 0..starters.len() {
            let at = (at + round) % starters.len();
            let line = race.run(round, names[at], starters[at]);
            println!("{line}");
            lines.push(line);
        }
    }
    page::summary(&lines).iter().for_each(|line| println!("{line}"));
    if options.write {
        page::write(&lines);
    }
}

struct Race<'a> {
    track: Track<'a>,
    /// Events of the topic.
    all: u64,
    /// Sessions, by the first that does the same as the others.
    blocked_by_first: Option<BTreeSet<String>>,
}

impl Race<'_> {
    /// One system in one round.
    fn run(&mut self, round: usize, name: &str, system: System<'_>) -> Value {
        let group = format!("race-{}-{round}-{name}", std::process::id());
        let Track { bootstrap, topic, partitions, .. } = self.track;
        let plan = Plan { bootstrap, name: &group, input: topic, profile: "", lanes: 1, partitions, dir: &scratch("race") };
        let process = system.start(&plan);
        let taken = self.track.measure(&process, &group);
        let mut line = json!({
            "round": round + 1, "system": name, "events": taken.events, "wall_s": rounded(taken.wall.as_secs_f64()),
            "events_per_s": taken.events_per_s().round(), "cpu_us_per_event": rounded(taken.cpu_us_per_event()),
            "rss_mib": taken.rss_mib,
        });
        if round == 0 && system.does_the_same() {
            self.track.until_committed(&process, &group, self.all);
            process.stop();
            let blocked = blocked::sessions(bootstrap, &commands(&group));
            let first = self.blocked_by_first.get_or_insert_with(|| blocked.clone());
            line["blocked_sessions"] = blocked.len().into();
            line["not_as_the_first"] = blocked.symmetric_difference(first).count().into();
        }
        // There is nothing more to see of it.
        process.kill();
        delete_topics(bootstrap, &group);
        let _ = std::fs::remove_dir_all(plan.dir.join(&group));
        line
    }
}

/// What the figures hang on.
fn machine(options: &Options) -> Value {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let field = |file: &str, name: &str| {
        let text = read(file);
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim_start_matches([' ', '\t', ':']).to_owned()
    };
    let memory_kib: u64 = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0);
    let java = std::process::Command::new("java").arg("-version").output().map(|output| output.stderr).unwrap_or_default();
    json!({
        "date": page::date(loopwarden::clock::now_ms()), "processor": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from), "memory_gib": memory_kib.div_ceil(1 << 20),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "java": String::from_utf8_lossy(&java).lines().next().unwrap_or("none"),
        "load_before": read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        "events": options.events, "rounds": options.rounds, "partitions": options.partitions,
        "source": options.source.file_name().map(|name| name.to_string_lossy()),
    })
}
