//! The whole program on a real broker: CPU of the process per event, exactly once, and the same job on the baselines beside it.
//!
//! `cargo bench --bench pipeline -- [--events N] [--profile NAME] [--lanes N] [--partitions N] [--source FILE] [--rounds N] [--baselines]`
//!
//! Events are those of a file (`../shared/data/events.ndjson.zst` where it is, else the sample fleet), repeated with a prefix on the
//! session until there are enough. Figures are process CPU (user and system) per event after the first fifth, as the baselines
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

use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use rdkafka::ClientConfig;
use rdkafka::TopicPartitionList;
use rdkafka::config::FromClientConfig;
use rdkafka::consumer::BaseConsumer;
use rdkafka::consumer::Consumer;
use rdkafka::producer::BaseRecord;
use rdkafka::producer::Producer;
use rdkafka::producer::ThreadedProducer;

#[path = "../kafka/broker.rs"]
mod broker;
#[path = "../kafka/proxy.rs"]
mod proxy;
/// What the broker's harness asks of its test binary.
mod world {
    pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
}

struct Options {
    events: usize,
    profile: String,
    lanes: usize,
    partitions: i32,
    source: PathBuf,
    rounds: usize,
    baselines: bool,
}

fn main() {
    let options = options();
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
        if options.baselines {
            run_baseline("kafka-streams", bootstrap, &topic, events, round);
            run_baseline("flink", bootstrap, &topic, events, round);
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
        "mode = \"live\"\npolicy = \"{}\"\ninstance = \"bench\"\nlanes = {}\ndata_dir = \"{}\"\n[http]\nlisten = \"127.0.0.1:0\"\n\
         [kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{group}\"\nstart = \"earliest\"\ninput = \"{topic}\"\n\
         commands = \"{group}-commands\"\nstate = \"{group}-state\"\ndlq = \"{group}-dlq\"\n",
        options.profile,
        options.lanes,
        data_dir.display()
    );
    std::fs::write(&path, text).unwrap();
    path
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
    let mark = "\"session_id\":\"";
    let mut sent = 0;
    for repetition in 0.. {
        for line in &lines {
            if sent >= options.events {
                producer.flush(Duration::from_secs(60)).unwrap();
                return sent as u64;
            }
            let at = line.find(mark).unwrap() + mark.len();
            let session = &line[at..at + line[at..].find('"').unwrap()];
            let key = format!("r{repetition}-{session}");
            let value = format!("{}r{repetition}-{}", &line[..at], &line[at..]);
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

fn run_baseline(name: &str, bootstrap: &str, topic: &str, events: u64, round: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/baselines").join(name).join("run.sh");
    if !script.is_file() {
        println!("skipped: {name}: the baselines are not here");
        return;
    }
    let out = format!("bench-{}-{name}-{round}", std::process::id());
    let admin = rdkafka::admin::AdminClient::from_config(ClientConfig::new().set("bootstrap.servers", bootstrap)).unwrap();
    let new = rdkafka::admin::NewTopic::new(&out, 4, rdkafka::admin::TopicReplication::Fixed(1));
    let _ = futures_executor(admin.create_topics([&new], &rdkafka::admin::AdminOptions::new()));
    let output = Command::new("bash")
        .arg(script)
        .args([bootstrap, topic, &out, &events.to_string()])
        .stderr(Stdio::null())
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout).trim());
}

fn futures_executor<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn stop(child: &mut Child) {
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let _ = child.wait();
}

/// User and system time of a process so far. Seconds; the kernel counts in hundredths.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
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
