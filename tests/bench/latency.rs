//! From an event to the command it causes, as a `read_committed` reader of `loop-commands` sees it: a whole `loopwarden run` on a real
//! broker, under a steady load.
//!
//! `cargo bench --bench latency -- [--rates 1000,5000,20000] [--seconds N] [--lanes N] [--partitions N] [--profile NAME] [--linger-ms N]
//! [--loads even,skewed,alone,flood] [--bare]`
//!
//! The load is sessions that get on. Among them, twenty times a second, a session makes the same failing call three times (a nudge of
//! session scope), and ten times a second ten agents of one swarm make one failing call (a nudge of swarm scope). A delay runs from
//! handing the last of these events to the producer to reading the command. One JSON line per rate; microseconds of each commit step
//! come from the process's own `/metrics`.
//!
//! With `--bare` the same load goes to a bare transactional loop after each run of the program (`bare.rs`), and the 99th percentile of session
//! scope is divided by that of the loop: what is above 1 is ours, the rest is the broker's and the machine's.
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

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use loopwarden::clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Message};
use serde_json::{Value, json};

#[path = "bare.rs"]
mod bare;
#[path = "../kafka/broker.rs"]
mod broker;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
#[path = "ratio.rs"]
mod ratio;
#[path = "subject.rs"]
mod subject;
use bare::Bare;
use process as world;
use process::watched::until;
use process::{PATIENCE, cpu_seconds, get, scratch};
use ratio::{Spread, rounded};
use subject::{Plan, Subject, commands};

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
    /// Whether a bare loop runs beside each run.
    bare: bool,
}

fn main() {
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    let runs = options.rates.iter().flat_map(|rate| options.loads.iter().map(move |load| (*rate, load)));
    let mut ratios: BTreeMap<(u64, &str), Vec<f64>> = BTreeMap::new();
    for (number, (rate, load)) in runs.enumerate() {
        let name = format!("latency-{}-{number}", std::process::id());
        let ours = measure(bootstrap, &Judge::program(bootstrap, &name, &options), &name, rate, load, &options);
        if options.bare {
            let name = format!("{name}-bare");
            let bare = measure(bootstrap, &Judge::bare(bootstrap, &name, &options), &name, rate, load, &options);
            println!(
                "{}",
                json!({"load": load, "events_per_s": rate, "p99_ms": ours, "bare_p99_ms": bare, "ratio": rounded(ours / bare)})
            );
            ratios.entry((rate, load)).or_default().push(ours / bare);
        }
    }
    for ((rate, load), ratios) in ratios {
        let Spread { least, median, most } = Spread::of(ratios.clone());
        let ratio = json!({"median": rounded(median), "least": rounded(least), "most": rounded(most), "runs": ratios.len()});
        println!("{}", json!({"load": load, "events_per_s": rate, "session p99 over that of a bare loop": ratio}));
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
        bare: false,
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
            "--bare" => options.bare = true,
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

/// In the names of sessions that loop.
const MARK: &str = "-session-";

/// What makes commands of events: it reads the topic of its name, and writes to the one for commands. Dropping it ends it.
enum Judge {
    Program(Subject),
    Bare(Bare),
}

impl Judge {
    fn program(bootstrap: &str, name: &str, options: &Options) -> Self {
        let (input, dir) = (format!("{name}-events"), scratch("latency"));
        let Options { profile, lanes, partitions, .. } = options;
        let plan = Plan { bootstrap, name, input: &input, profile, lanes: *lanes, partitions: *partitions, dir: &dir };
        Self::Program(Subject::start(&plan))
    }

    fn bare(bootstrap: &str, name: &str, options: &Options) -> Self {
        Self::Bare(Bare::start(bootstrap, name, options.partitions, MARK))
    }

    /// The process, where it is one.
    fn subject(&self) -> Option<&Subject> {
        match self {
            Self::Program(subject) => Some(subject),
            Self::Bare(_) => None,
        }
    }

    /// CPU of the process so far. Seconds.
    fn cpu_seconds(&self) -> f64 {
        self.subject().map_or(0.0, |subject| cpu_seconds(subject.process.id()))
    }

    /// Kinds of subjects whose commands it makes.
    fn scopes(&self) -> &'static [&'static str] {
        match self {
            Self::Program(_) => &["session", "swarm"],
            Self::Bare(_) => &["session"],
        }
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

/// Puts the load on it, and prints what its commands took. The 99th percentile of session scope, in milliseconds.
fn measure(bootstrap: &str, judge: &Judge, name: &str, rate: u64, load: &str, options: &Options) -> f64 {
    let (topic, commands) = (format!("{name}-events"), commands(name));
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", format!("{commands}-reader"))
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()
        .unwrap();
    consumer.subscribe(&[&commands]).unwrap();
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("partitioner", "murmur2_random")
        .set("linger.ms", options.linger_ms.to_string())
        .set("compression.type", "lz4")
        .create()
        .unwrap();
    let send = |session: &str, json: String| {
        producer.send(BaseRecord::to(&topic).key(session).payload(&json)).map_err(|(error, _)| error).expect("queued");
    };

    // The first command says that the process is up and reads.
    let failed = json!({"error": {"message": "connection refused"}, "outcome": "error"});
    let up = format!("up{MARK}0");
    let processes: Vec<_> = judge.subject().iter().map(|subject| &subject.process).collect();
    let mut attempt = 0;
    until(&processes, "the first command", PATIENCE, || {
        send(&up, call(&up, None, attempt, "http_get", &json!({"url": "http://dead"}), &failed));
        attempt += 1;
        consumer.poll(Duration::from_millis(200))?.ok().map(drop)
    });

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
            (cpu_s, counted) = (judge.cpu_seconds(), 0);
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
            let session = format!("{phase}{MARK}{sessions}");
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
    processes.iter().for_each(|process| process.assert_runs("the load was over"));
    let cpu_us = (judge.cpu_seconds() - cpu_s) * 1e6 / f64::from(counted);
    let steps = judge.subject().map(|subject| commit_steps(&get(subject.http, "/metrics").unwrap_or_default()));
    let ms = |delays: &[Duration], part: f64| {
        let at = delays.get(((delays.len() as f64 * part) as usize).min(delays.len().saturating_sub(1)));
        at.map_or(0.0, |delay| rounded(delay.as_secs_f64() * 1e3))
    };
    delays.iter_mut().for_each(|delays| delays.sort_unstable());
    for (kind, delays) in judge.scopes().iter().zip(&delays) {
        println!(
            "{}",
            json!({"judge": if judge.subject().is_some() { "loopwarden" } else { "bare loop" }, "scope": kind, "load": load, "events_per_s": rate, "lanes": options.lanes, "partitions": options.partitions, "profile": options.profile, "linger_ms": options.linger_ms,
                "commands": delays.len(), "p50_ms": ms(delays, 0.5), "p90_ms": ms(delays, 0.9), "p99_ms": ms(delays, 0.99),
                "max_ms": ms(delays, 1.0),
                "cpu_us_per_event": rounded(cpu_us), "commit": steps})
        );
    }
    let unanswered = probes.keys().filter(|name| judge.scopes().iter().any(|scope| name.contains(scope))).count();
    println!("{}", json!({"load": load, "events_per_s": rate, "unanswered": unanswered}));
    let _ = producer.flush(Duration::from_secs(5));
    ms(&delays[0], 0.99)
}
