//! The whole program on a real broker: CPU of the process per event, exactly once, and the same job on the baselines beside it.
//!
//! `cargo bench --bench pipeline -- [--events N] [--profile NAME] [--lanes N] [--partitions N] [--source FILE] [--rounds N] [--baselines]
//! [--replay] [--restore]`
//!
//! `--replay` needs no broker: `loopwarden replay` over the source, one lane. `--restore` takes the state away after the run and measures
//! how long the program takes to have it back from its changelog.
//! Events are those of a file (`../shared/data/events.ndjson.zst` where it is, else the sample fleet), repeated with a prefix on the
//! session until there are enough, each repetition at event times after the one before: at the same times its sessions would be long
//! idle when they begin, and forgotten with the next event. With `--baselines` the sessions that each job blocks are compared too (profile
//! `hackeurope`: the others say so at every repeat, the program once an episode). Figures are process CPU (user and system) per event after the first fifth, as the baselines
//! measure themselves; the broker's own CPU is not in them. One JSON line per run.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    reason = "a benchmark reads the clock, prints, and stops when something is missing"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, TopicPartitionList};

#[path = "blocked.rs"]
mod blocked;
#[path = "../kafka/broker.rs"]
mod broker;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
use process as world;
use process::{children_cpu_seconds, cpu_seconds, create_topics, free_port, get, resident_mib, stop};

struct Options {
    events: usize,
    profile: String,
    lanes: usize,
    partitions: i32,
    source: PathBuf,
    rounds: usize,
    baselines: bool,
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
    let config = write_config(bootstrap, &topic, &options, "loopwarden");
    topics(&config, options.partitions);
    let events = produce(bootstrap, &topic, &options);
    println!("{{\"events\":{events},\"partitions\":{},\"source\":{:?}}}", options.partitions, options.source);
    floor(bootstrap, &topic, events);
    for round in 0..options.rounds {
        let group = format!("bench-{}-{round}", std::process::id());
        let config = write_config(bootstrap, &topic, &options, &group);
        topics(&config, options.partitions);
        run_loopwarden(bootstrap, &topic, &group, &config, events, &options);
        if options.restore {
            restore(&group, &config, &options);
        }
        if options.baselines {
            let ours = blocked::sessions(bootstrap, &format!("{group}-commands"));
            for name in ["kafka-streams", "flink"] {
                let Some(out) = run_baseline(name, bootstrap, &topic, events, round) else { continue };
                let theirs = blocked::sessions(bootstrap, &out);
                println!(
                    "{{\"blocked_sessions\":{{\"loopwarden\":{},\"{name}\":{}}},\"in_one_only\":{}}}",
                    ours.len(),
                    theirs.len(),
                    ours.symmetric_difference(&theirs).count()
                );
            }
        }
    }
}

fn options() -> Options {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/events.ndjson.zst");
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo/fleet.ndjson");
    let mut options = Options {
        events: 593_640,
        profile: "hackeurope".to_owned(),
        lanes: 1,
        partitions: 4,
        source: if shared.is_file() { shared } else { fleet },
        rounds: 1,
        baselines: false,
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
            "--baselines" => options.baselines = true,
            "--replay" => options.replay = true,
            "--restore" => options.restore = true,
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn scratch() -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("pipeline-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn write_config(bootstrap: &str, topic: &str, options: &Options, group: &str) -> PathBuf {
    let dir = scratch();
    let path = dir.join(format!("{group}.toml"));
    let data_dir = dir.join(format!("{group}-state"));
    let text = format!(
        "mode = \"live\"\npolicy = \"{}\"\ninstance = \"bench\"\nlanes = {}\ndata_dir = \"{}\"\n[http]\nlisten = \"127.0.0.1:{}\"\n\
         [kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{group}\"\nstart = \"earliest\"\ninput = \"{topic}\"\n\
         commands = \"{group}-commands\"\nstate = \"{group}-state\"\ndlq = \"{group}-dlq\"\n",
        options.profile,
        options.lanes,
        data_dir.display(),
        free_port()
    );
    std::fs::write(&path, text).unwrap();
    path
}

/// The whole program without Kafka: `loopwarden replay` over the source as plain text, one lane, its output thrown away.
fn replay(options: &Options) {
    let file = scratch().join("events.ndjson");
    let lines = lines(&options.source);
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
fn restore(group: &str, config: &Path, options: &Options) {
    std::fs::remove_dir_all(scratch().join(format!("{group}-state"))).unwrap();
    let text = std::fs::read_to_string(config).unwrap();
    let port: u16 = text.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
        .args(["run", "--config"])
        .arg(config)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(scratch().join(format!("{group}-restore.log"))).unwrap())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !get(port, "/readyz").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
        assert!(child.try_wait().unwrap().is_none(), "loopwarden stopped early; see {group}-restore.log");
        assert!(begun.elapsed() < Duration::from_secs(600), "not ready within ten minutes");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    let (ready, cpu) = (begun.elapsed(), cpu_seconds(child.id()));
    let metrics = get(port, "/metrics").unwrap_or_default();
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
    stop(&mut child);
}

fn topics(config: &Path, partitions: i32) {
    let status = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
        .args(["topics", "create", "--config"])
        .arg(config)
        .args(["--partitions", &partitions.to_string()])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "topics create failed");
}

fn lines(source: &Path) -> Vec<String> {
    let file = std::fs::File::open(source).unwrap();
    let reader: Box<dyn BufRead> = if source.extension().is_some_and(|extension| extension == "zst") {
        Box::new(BufReader::new(zstd::Decoder::new(file).unwrap()))
    } else {
        Box::new(BufReader::new(file))
    };
    reader.lines().map(Result::unwrap).filter(|line| !line.is_empty()).collect()
}

/// An event whose session and time are to be replaced: what stands before, between and after them.
struct Timed<'a> {
    parts: [&'a str; 3],
    session: &'a str,
    time_ms: i64,
}

impl<'a> Timed<'a> {
    /// In the source the session comes first, and both are plain text.
    fn of(line: &'a str) -> Self {
        let (before, rest) = line.split_once("\"session_id\":\"").unwrap();
        let (session, rest) = rest.split_once('"').unwrap();
        let (between, rest) = rest.split_once("\"time\":\"").unwrap();
        let (time, after) = rest.split_once('"').unwrap();
        let time_ms = loopwarden::event::EventTime::parse_rfc3339(time).unwrap().0;
        Self { parts: [before, between, after], session, time_ms }
    }

    fn value(&self, session: &str, time_ms: i64) -> String {
        let [before, between, after] = self.parts;
        format!("{before}\"session_id\":\"{session}\"{between}\"time\":{time_ms}{after}")
    }
}

/// Fills the topic: every session once per repetition, under a name of its own.
fn produce(bootstrap: &str, topic: &str, options: &Options) -> u64 {
    let producer: ThreadedProducer<rdkafka::producer::DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("compression.type", "lz4")
        .set("linger.ms", "20")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "200000")
        .set("queue.buffering.max.kbytes", "262144")
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    let lines = lines(&options.source);
    let events: Vec<Timed<'_>> = lines.iter().map(|line| Timed::of(line)).collect();
    let first = events.iter().map(|event| event.time_ms).min().unwrap();
    let span_ms = events.iter().map(|event| event.time_ms).max().unwrap() - first + 3_600_000;
    // The last repetition ends before today: an event from the future is moved to its record's time.
    let repetitions = options.events.div_ceil(events.len()) as i64;
    let begin_ms = 1_735_689_600_000 - repetitions * span_ms;
    assert!(begin_ms >= 0, "so many repetitions begin before 1970");
    let mut sent = 0;
    for repetition in 0.. {
        for event in &events {
            if sent >= options.events {
                producer.flush(Duration::from_secs(60)).unwrap();
                return sent as u64;
            }
            let time_ms = begin_ms + repetition * span_ms + event.time_ms - first;
            let key = format!("r{repetition}-{}", event.session);
            let value = event.value(&key, time_ms);
            let mut record = BaseRecord::to(topic).key(&key).payload(&value);
            while let Err((_, returned)) = producer.send(record) {
                record = returned;
                producer.poll(Duration::from_millis(5));
            }
            sent += 1;
        }
    }
    sent as u64
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

fn run_loopwarden(bootstrap: &str, topic: &str, group: &str, config: &Path, events: u64, options: &Options) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
        .args(["run", "--config"])
        .arg(config)
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(scratch().join(format!("{group}.log"))).unwrap())
        .spawn()
        .unwrap();
    let asker: BaseConsumer = ClientConfig::new().set("bootstrap.servers", bootstrap).set("group.id", group).create().unwrap();
    let begun = Instant::now();
    let mut start: Option<(f64, Instant, u64)> = None;
    loop {
        std::thread::park_timeout(Duration::from_millis(50));
        let done = committed(&asker, topic, options.partitions);
        if start.is_none() && done > events / 5 {
            start = Some((cpu_seconds(child.id()), Instant::now(), done));
        }
        if done >= events {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "loopwarden stopped early; see {group}.log");
        assert!(begun.elapsed() < Duration::from_secs(1_800), "not done within half an hour");
    }
    let (cpu, at, from) = start.unwrap();
    let used = cpu_seconds(child.id()) - cpu;
    let resident = resident_mib(child.id());
    stop(&mut child);
    let notes = [("profile", options.profile.clone()), ("lanes", options.lanes.to_string()), ("rss_mib", resident.to_string())];
    report("loopwarden", "exactly_once", events - from, at.elapsed(), used, &notes);
}

fn committed(asker: &BaseConsumer, topic: &str, partitions: i32) -> u64 {
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let Ok(answer) = asker.committed_offsets(list, Duration::from_secs(5)) else { return 0 };
    answer.elements().iter().filter_map(|element| element.offset().to_raw()).filter(|offset| *offset > 0).sum::<i64>() as u64
}

/// Runs one of the other jobs; the topic of its commands.
fn run_baseline(name: &str, bootstrap: &str, topic: &str, events: u64, round: usize) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/baselines").join(name).join("run.sh");
    if !script.is_file() {
        println!("skipped: {name}: the baselines are not here");
        return None;
    }
    let out = format!("bench-{}-{name}-{round}", std::process::id());
    create_topics(bootstrap, &[&out], 4);
    let output = Command::new("bash")
        .arg(script)
        .args([bootstrap, topic, &out, &events.to_string()])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout).trim());
    output.status.success().then_some(out)
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
