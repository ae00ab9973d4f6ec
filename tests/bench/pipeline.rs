//! The whole program on a real broker: CPU of the process per event, exactly once.
//!
//! `cargo bench --bench pipeline -- [--events N] [--profile NAME] [--lanes N] [--partitions N] [--source FILE] [--rounds N] [--replay]
//! [--restore]`
//!
//! `--replay` needs no broker: `loopwarden replay` over the source, one lane. `--restore` takes the state away after the run and measures
//! how long the program takes to have it back from its changelog. Figures are process CPU (user and system) per event after the first
//! fifth; the broker's own CPU is not in them. One JSON line per run. What others take for the same events is in `race`.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    reason = "a benchmark reads the clock, prints, and stops when something is missing"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

#[path = "../kafka/broker.rs"]
mod broker;
#[path = "measure.rs"]
mod measure;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
#[path = "stream.rs"]
mod stream;
#[path = "subject.rs"]
mod subject;
use measure::Track;
use process as world;
use process::{children_cpu_seconds, cpu_seconds, create_topics, get, scratch};
use subject::{Plan, Subject};

struct Options {
    events: usize,
    profile: String,
    lanes: usize,
    partitions: i32,
    source: PathBuf,
    rounds: usize,
    replay: bool,
    restore: bool,
}

fn main() {
    let options = options();
    if options.replay {
        replay(&options);
        return;
    }
    let Some(bootstrap) = broker::bootstrap() else { return };
    let topic = format!("bench-events-{}", std::process::id());
    create_topics(bootstrap, &[&topic], options.partitions);
    let events = stream::produce(bootstrap, &topic, &options.source, options.events);
    println!("{{\"events\":{events},\"partitions\":{},\"source\":{:?}}}", options.partitions, options.source);
    floor(bootstrap, &topic, events);
    let track = Track { bootstrap, topic: &topic, partitions: options.partitions, warm_up: events / 5, end: events };
    for round in 0..options.rounds {
        let group = format!("bench-{}-{round}", std::process::id());
        let plan = Plan {
            bootstrap,
            name: &group,
            input: &topic,
            profile: &options.profile,
            lanes: options.lanes,
            partitions: options.partitions,
            dir: &scratch("pipeline"),
        };
        let mut subject = Subject::start(&plan);
        let taken = track.measure(&subject.process, &group);
        subject.process.stop();
        let notes =
            [("profile", options.profile.clone()), ("lanes", options.lanes.to_string()), ("rss_mib", taken.rss_mib.to_string())];
        report("loopwarden", "exactly_once", taken.events, taken.wall, taken.cpu_s, &notes);
        if options.restore {
            restore(&mut subject, &options);
        }
    }
}

fn options() -> Options {
    let mut options = Options {
        events: 593_640,
        profile: "hackeurope".to_owned(),
        lanes: 1,
        partitions: 4,
        source: stream::source(),
        rounds: 1,
        replay: false,
        restore: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap();
        match argument.as_str() {
            "--events" => options.events = value().parse().unwrap(),
            "--profile" => options.profile = value(),
            "--lanes" => options.lanes = value().parse().unwrap(),
            "--partitions" => options.partitions = value().parse().unwrap(),
            "--source" => options.source = value().into(),
            "--rounds" => options.rounds = value().parse().unwrap(),
            "--replay" => options.replay = true,
            "--restore" => options.restore = true,
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

/// The whole program without Kafka: `loopwarden replay` over the source as plain text, one lane, its output thrown away.
fn replay(options: &Options) {
    let file = scratch("pipeline").join("events.ndjson");
    let lines = stream::lines(&options.source);
    std::fs::write(&file, lines.join("\n")).unwrap();
    for _ in 0..options.rounds {
        let before = children_cpu_seconds();
        let begun = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
            .arg("replay")
            .arg(&file)
            .args(["--policy", &options.profile, "--lanes", "1", "--output", "ndjson"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "replay failed");
        let notes = [("profile", options.profile.clone())];
        report("loopwarden replay", "none", lines.len() as u64, begun.elapsed(), children_cpu_seconds() - before, &notes);
    }
    std::fs::remove_file(&file).unwrap();
}

/// Starts the program once more without its state: how long until it is ready, and what it read of its changelog.
fn restore(subject: &mut Subject, options: &Options) {
    std::fs::remove_dir_all(&subject.state).unwrap();
    let begun = Instant::now();
    subject.again();
    subject.until_ready();
    let (ready, cpu) = (begun.elapsed(), cpu_seconds(subject.process.id()));
    let metrics = get(subject.http, "/metrics").unwrap_or_default();
    let sum = |name: &str| -> f64 {
        let samples = metrics.lines().filter(|line| line.starts_with(name) && line.contains("session"));
        samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    let bytes = sum("loopwarden_restore_bytes_total");
    println!(
        "{{\"system\":\"loopwarden restore\",\"partitions\":{},\"changelog_mb\":{:.1},\"ready_s\":{:.2},\"restoring_s\":{:.2},\
         \"mb_per_s\":{:.1},\"cpu_s\":{cpu:.2}}}",
        options.partitions,
        bytes / 1e6,
        ready.as_secs_f64(),
        sum("loopwarden_restore_seconds_sum"),
        bytes / 1e6 / ready.as_secs_f64(),
    );
}

/// What reading alone costs: librdkafka's poll on the same topic, nothing done.
fn floor(bootstrap: &str, topic: &str, events: u64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bench-floor")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("fetch.queue.backoff.ms", "2")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let (mut seen, mut start) = (0_u64, (0.0, Instant::now(), 0_u64));
    while seen < events {
        if let Some(Ok(_)) = consumer.poll(Duration::from_secs(1)) {
            seen += 1;
            if seen == events / 5 {
                start = (cpu_seconds(std::process::id()), Instant::now(), seen);
            }
        }
    }
    report("librdkafka poll", "none", events - start.2, start.1.elapsed(), cpu_seconds(std::process::id()) - start.0, &[]);
}

fn report(system: &str, guarantee: &str, events: u64, wall: Duration, cpu_s: f64, notes: &[(&str, String)]) {
    let notes: String = notes.iter().map(|(key, value)| format!(",\"{key}\":\"{value}\"")).collect();
    println!(
        "{{\"system\":\"{system}\",\"guarantee\":\"{guarantee}\",\"events\":{events},\"wall_s\":{:.2},\"events_per_s\":{:.0},\
         \"cpu_us_per_event\":{:.2}{notes}}}",
        wall.as_secs_f64(),
        events as f64 / wall.as_secs_f64(),
        cpu_s * 1e6 / events as f64
    );
}
