//! From an event to the command it causes, as a `read_committed` reader of `loop-commands` sees it: a whole `loopwarden run` on a real
//! broker, under a steady load.
//!
//! `cargo bench --bench latency -- [--rates 1000,5000,20000] [--seconds N] [--lanes N] [--partitions N] [--profile NAME] [--linger-ms N]
//! [--loads even,skewed,alone,flood]`
//!
//! The load is sessions that get on. Among them, twenty times a second, a session makes the same failing call three times (a nudge of
//! session scope), and ten times a second ten agents of one swarm make one failing call (a nudge of swarm scope). A delay runs from
//! handing the last of these events to the producer to reading the command. One JSON line per rate; microseconds of each commit step
//! come from the process's own `/metrics`.
//!
//! Of a `skewed` load one session is half, and one swarm nine tenths, whose calls all fail, so that each is summed up for the swarm: what
//! the sessions and swarms that loop wait for beside it.
//!
//! Of a `flood` one tenant sends nine tenths of the rate, from two thousand sessions of its own. What `alone` is: the other tenth without it.

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

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, path::PathBuf};

use loopwarden::clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Message};
use serde_json::{Value, json};

#[path = "../kafka/broker.rs"]
mod broker;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
use process as world;
use process::{cpu_seconds, free_port, get, stop};

/// Between two sessions that loop, and between two swarms that do.
const SESSION_EVERY: Duration = Duration::from_millis(50);
const SWARM_EVERY: Duration = Duration::from_millis(100);
/// Of an event of the load: events have 0.5 to 0.9 KB.
const RESULT_BYTES: usize = 300;
/// Not measured: connections, caches and averages settle.
const WARM_UP: Duration = Duration::from_secs(10);

struct Options {
    rates: Vec<u64>,
    loads: Vec<String>,
    seconds: u64,
    lanes: usize,
    partitions: i32,
    profile: String,
    /// Of the load's producer. 5, as Kafka's own since 4.0: a batch for each event would be most of the broker's work.
    linger_ms: u64,
}

fn main() {
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    let runs = options.rates.iter().flat_map(|rate| options.loads.iter().map(move |load| (*rate, load)));
    for (number, (rate, load)) in runs.enumerate() {
        measure(bootstrap, number, rate, load, &options);
    }
}

fn options() -> Options {
    let mut options = Options {
        rates: vec![1_000, 5_000, 20_000],
        loads: vec!["even".to_owned()],
        seconds: 20,
        lanes: 1,
        partitions: 4,
        profile: "default".to_owned(),
        linger_ms: 5,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap();
        match argument.as_str() {
            "--rates" => options.rates = value().split(',').map(|rate| rate.parse().unwrap()).collect(),
            "--loads" => options.loads = value().split(',').map(str::to_owned).collect(),
            "--seconds" => options.seconds = value().parse().unwrap(),
            "--lanes" => options.lanes = value().parse().unwrap(),
            "--partitions" => options.partitions = value().parse().unwrap(),
            "--profile" => options.profile = value(),
            "--linger-ms" => options.linger_ms = value().parse().unwrap(),
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

/// A process and what it reads and writes. Dropping it ends it.
struct Subject {
    child: Child,
    topic: String,
    commands: String,
    http: u16,
}

impl Drop for Subject {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

impl Subject {
    fn start(bootstrap: &str, name: &str, options: &Options) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("latency-{}", std::process::id())).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let http = free_port();
        let config = dir.join("loopwarden.toml");
        let text = format!(
            "mode = \"live\"\npolicy = \"{}\"\ninstance = \"bench\"\nlanes = {}\ndata_dir = \"{}\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n\
             [kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{name}\"\nstart = \"earliest\"\ninput = \"{name}-events\"\n\
             commands = \"{name}-commands\"\nstate = \"{name}-state\"\ndlq = \"{name}-dlq\"\n",
            options.profile,
            options.lanes,
            dir.join("data").display()
        );
        std::fs::write(&config, text).unwrap();
        let created = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
            .args(["topics", "create", "--config"])
            .arg(&config)
            .args(["--partitions", &options.partitions.to_string()])
            .stdout(Stdio::null())
            .status();
        assert!(created.unwrap().success(), "topics create failed");
        let child = Command::new(env!("CARGO_BIN_EXE_loopwarden"))
            .args(["run", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("log")).unwrap())
            .spawn()
            .unwrap();
        Self { child, topic: format!("{name}-events"), commands: format!("{name}-commands"), http }
    }
}

/// Mean microseconds of each commit step, and how many commits there were.
fn commit_steps(metrics: &str) -> Value {
    let mut steps = serde_json::Map::new();
    for step in loopwarden::task::COMMIT_STEPS {
        let of = |what: &str| {
            let series = format!("loopwarden_commit_seconds_{what}{{step=\"{step}\"}} ");
            let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
            line.and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0)
        };
        steps.insert("commits".to_owned(), of("count").into());
        if *step == "drain" {
            // Where the drain's time lies: upper bound of each bucket in seconds, and how many are at or below it.
            let prefix = "loopwarden_commit_seconds_bucket{le=\"";
            let buckets =
                metrics.lines().filter_map(|line| line.strip_prefix(prefix)).filter(|line| line.contains("step=\"drain\""));
            let counts: Vec<String> =
                buckets.filter_map(|line| Some(format!("{}:{}", line.split('"').next()?, line.rsplit(' ').next()?))).collect();
            steps.insert("drain_buckets".to_owned(), counts.join(" ").into());
        }
        steps.insert(format!("{step}_us"), ((of("sum") * 1e6 / of("count").max(1.0)).round()).into());
    }
    steps.into()
}

fn call(session: &str, swarm: Option<&str>, number: u64, tool: &str, args: &Value, result: &Value) -> String {
    let mut event = json!({
        "id": format!("{session}.{number}"), "tenant": "quiet", "kind": "tool", "session_id": session, "agent": {"id": "main"},
        "time": clock::now_ms(), "tool": tool, "call_id": format!("c{number}"), "args": args,
    });
    if let Some(swarm) = swarm {
        event["swarm_id"] = swarm.into();
    }
    for (field, value) in result.as_object().unwrap() {
        event[field] = value.clone();
    }
    event.to_string()
}

/// Text that no two results have the same part of.
fn words() -> String {
    let (mut dice, mut text) = (0x9e37_79b9_7f4a_7c15_u64, String::new());
    while text.len() < 1 << 20 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:x} ", dice >> 36));
    }
    text
}

/// The event of the load with that number: its session, and its JSON.
fn load_event(load: &str, phase: &str, sent: u64, words: &str) -> (String, String) {
    let at = sent as usize * 7 % (words.len() - RESULT_BYTES);
    let said = &words[at..at + RESULT_BYTES];
    let (tenant, ok) = (if load == "flood" && sent % 10 < 9 { "loud" } else { "quiet" }, "\"outcome\":\"ok\",\"result\"");
    let (session, swarm, outcome) = match (load, sent % 10) {
        ("alone" | "flood", _) => (format!("{tenant}{}", sent % 2_000), "crew", ok),
        ("even", _) => (format!("s{}", sent % 2_000), "crew", ok),
        ("skewed", 9) => (format!("s{}", sent % 2_000), "others", ok),
        ("skewed", n) if n % 2 == 0 => ("giant".to_owned(), "crew", "\"outcome\":\"error\",\"error\""),
        ("skewed", _) => (format!("s{}", sent % 2_000), "crew", "\"outcome\":\"error\",\"error\""),
        _ => panic!("unknown load {load}"),
    };
    let json = format!(
        "{{\"id\":\"{session}.{sent}\",\"tenant\":\"{tenant}\",\"kind\":\"tool\",\"session_id\":\"{session}\",\"swarm_id\":\"{swarm}\",\"time\":{},\
         \"tool\":\"read_file\",\"args\":{{\"path\":\"src/{phase}{sent}.rs\"}},{outcome}:\"{said}\"}}",
        clock::now_ms(),
    );
    (session, json)
}

fn measure(bootstrap: &str, number: usize, rate: u64, load: &str, options: &Options) {
    let subject = Subject::start(bootstrap, &format!("latency-{}-{number}", std::process::id()), options);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", format!("{}-reader", subject.commands))
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    consumer.subscribe(&[&subject.commands]).unwrap();
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("partitioner", "murmur2_random")
        .set("linger.ms", options.linger_ms.to_string())
        .set("compression.type", "lz4")
        .create()
        .unwrap();
    let send = |session: &str, json: String| {
        producer.send(BaseRecord::to(&subject.topic).key(session).payload(&json)).map_err(|(error, _)| error).expect("queued");
    };

    // The first command says that the process is up and reads.
    let failed = json!({"error": {"message": "connection refused"}, "outcome": "error"});
    let up = Instant::now();
    for attempt in 0.. {
        send("up", call("up", None, attempt, "http_get", &json!({"url": "http://dead"}), &failed));
        if consumer.poll(Duration::from_millis(200)).is_some_and(|message| message.is_ok()) {
            break;
        }
        assert!(up.elapsed() < Duration::from_secs(60), "loopwarden does not answer");
    }

    let (mut began, mut is_warm) = (Instant::now(), false);
    let (mut sent, mut sessions, mut swarms) = (0_u64, 0_u32, 0_u32);
    let (mut probes, mut delays): (BTreeMap<String, Instant>, [Vec<Duration>; 2]) = (BTreeMap::new(), [vec![], vec![]]);
    let (mut cpu_s, mut counted) = (0.0, 0);
    let end = Duration::from_secs(options.seconds);
    // Made before: what the load costs is taken from the brokers and from the subject.
    let words = words();
    while !is_warm || began.elapsed() < end {
        if !is_warm && began.elapsed() >= WARM_UP {
            is_warm = true;
            (began, sent, sessions, swarms) = (Instant::now(), 0, 0, 0);
            probes.clear();
            delays = [vec![], vec![]];
            (cpu_s, counted) = (cpu_seconds(subject.child.id()), 0);
        }
        let elapsed = began.elapsed();
        let due = elapsed.as_micros() as u64 * rate / if load == "alone" { 10_000_000 } else { 1_000_000 };
        let phase = if is_warm { "m" } else { "w" };
        while sent < due {
            let (session, json) = load_event(load, phase, sent, &words);
            send(&session, json);
            (sent, counted) = (sent + 1, counted + 1);
        }
        if elapsed >= SESSION_EVERY * sessions {
            let session = format!("{phase}-session-{sessions}");
            for attempt in 0..3 {
                send(&session, call(&session, None, attempt, "http_get", &json!({"url": "http://dead"}), &failed));
            }
            probes.insert(session, Instant::now());
            sessions += 1;
        }
        if elapsed >= SWARM_EVERY * swarms {
            let swarm = format!("{phase}-swarm-{swarms}");
            for worker in 0..10 {
                let session = format!("{swarm}-{worker}");
                send(&session, call(&session, Some(&swarm), 0, "http_get", &json!({"url": "http://dead"}), &failed));
            }
            probes.insert(swarm, Instant::now());
            swarms += 1;
        }
        while let Some(Ok(message)) = consumer.poll(Duration::from_millis(1)) {
            let command: Value = serde_json::from_slice(message.payload().unwrap_or_default()).unwrap();
            for (kind, subject) in ["session_id", "swarm_id"].into_iter().enumerate() {
                if let Some(at) = command[subject].as_str().and_then(|name| probes.remove(name)) {
                    delays[kind].push(at.elapsed());
                }
            }
        }
    }
    let cpu_us = (cpu_seconds(subject.child.id()) - cpu_s) * 1e6 / f64::from(counted);
    let steps = commit_steps(&get(subject.http, "/metrics").unwrap_or_default());
    for (kind, delays) in ["session", "swarm"].into_iter().zip(&mut delays) {
        delays.sort_unstable();
        let at = |part: f64| delays.get(((delays.len() as f64 * part) as usize).min(delays.len().saturating_sub(1)));
        let ms = |part| at(part).map_or(0.0, |delay| (delay.as_secs_f64() * 1e5).round() / 100.0);
        println!(
            "{}",
            json!({"scope": kind, "load": load, "events_per_s": rate, "lanes": options.lanes, "partitions": options.partitions, "profile": options.profile, "linger_ms": options.linger_ms,
                "commands": delays.len(), "p50_ms": ms(0.5), "p90_ms": ms(0.9), "p99_ms": ms(0.99), "max_ms": ms(1.0),
                "cpu_us_per_event": (cpu_us * 100.0).round() / 100.0, "commit": steps})
        );
    }
    println!("{}", json!({"load": load, "events_per_s": rate, "unanswered": probes.len()}));
    let _ = producer.flush(Duration::from_secs(5));
}
