//! One tenant writes all it can to the topic of a fleet: what happens to the verdicts of another one.
//!
//! `cargo bench --bench flood -- [--seconds 60] [--rate 0] [--limit 0] [--partitions 4] [--lanes 1]`
//!
//! A producer of the tenant "evil" writes events of ever new sessions, swarms, tools and fingerprints: `--rate` a second, or as fast as the
//! broker takes them.
//! Meanwhile sessions of the tenant "good" make the same failing call three times, twenty a second, one after the other; others get on. A
//! verdict is as late as the command that a `read_committed` reader sees, from handing the third call to the producer. A session that was
//! blocked before asks a guard five times a second whether it may call: it must not. `--limit` is `events_per_minute` of "evil" in each
//! partition, 0 none. When the time is over the producer of "evil" stops, and what is missing is waited for. One JSON line: what was lost,
//! lifted or wrong, how late verdicts were, and for how long the lanes went on behind the end.

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

use std::io::{Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, net::TcpStream, thread};

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
use process::watched::{Watched, until};
use process::{free_port, get, is_ready, resident_mib, scratch};

const TOPIC: &str = "agents.tool-events.v1";
const COMMANDS: &str = "agents.loop-commands.v1";
/// Between two sessions that loop.
const EVERY: Duration = Duration::from_millis(50);
/// Events between two looks at the clock.
const BATCH: u64 = 100;
/// Longest wait for the process, and for what was sent before the end.
const PATIENCE: Duration = Duration::from_secs(1_800);

struct Options {
    seconds: u64,
    /// Events of "evil" a second; 0: as many as the broker takes.
    rate: u64,
    limit: u64,
    partitions: u32,
    lanes: u32,
}

fn options() -> Options {
    let mut options = Options { seconds: 60, rate: 0, limit: 0, partitions: 4, lanes: 1 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().expect("a value").parse::<u64>().unwrap();
        match argument.as_str() {
            "--seconds" => options.seconds = number(),
            "--rate" => options.rate = number(),
            "--limit" => options.limit = number(),
            "--partitions" => options.partitions = number() as u32,
            "--lanes" => options.lanes = number() as u32,
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn call(session: &str, number: u64, command: &str) -> Value {
    json!({"id": format!("{session}-{number}"), "kind": "tool", "session_id": session, "tenant": "good", "tool": "Bash",
           "args": {"command": command}, "outcome": "error", "result": "failed"})
}

fn evil(number: u64) -> (String, String) {
    let session = format!("e{number}");
    let event = format!(
        r#"{{"id":"{number}","kind":"tool","session_id":"{session}","tenant":"evil","swarm_id":"w{number}","tool":"t{number}","args":{{"x":"{number}"}},"outcome":"error"}}"#
    );
    (session, event)
}

/// The process and a guard. Dropping it ends both.
struct Fleet {
    /// Ended first, as fields are dropped in their order.
    guard: Watched,
    engine: Watched,
    http: u16,
    port: u16,
}

impl Fleet {
    fn start(bootstrap: &str, options: &Options) -> Self {
        let dir = scratch("flood");
        let policy = dir.join("policy.toml");
        let limit = format!("[[tenant]]\nnames = [\"evil\"]\nevents_per_minute = {}\n", options.limit);
        std::fs::write(&policy, format!("profile = \"flood\"\nbase = \"default\"\n{limit}")).unwrap();
        let kafka = format!("kafka.bootstrap_servers={bootstrap}");
        let program = |name: &str, arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
            command.args(arguments).args(["--set", &kafka]);
            Watched::start(&format!("loopwarden {name}"), &mut command, &dir.join(name))
        };
        let partitions = options.partitions.to_string();
        program("topics", &["topics", "create", "--partitions", &partitions]).finish();
        let (http, port) = (free_port(), free_port());
        let sets = [
            format!("http.listen=127.0.0.1:{http}"),
            format!("lanes={}", options.lanes),
            format!("policy={}", policy.display()),
            "mode=live".to_owned(),
        ];
        let data = dir.join("data").display().to_string();
        let mut run = vec!["run", "--data-dir", &data];
        run.extend(sets.iter().flat_map(|set| ["--set", set.as_str()]));
        let engine = program("run", &run);
        let guard = program("guard", &["guard", "--state", "kafka", "--listen", &format!("127.0.0.1:{port}")]);
        for port in [http, port] {
            until(&[&engine, &guard], "both are ready", PATIENCE, || is_ready(port));
        }
        Self { guard, engine, http, port }
    }

    /// What the guard says about one more call of a session: whether it is refused, and how late verdicts are.
    fn ask(&self, session: &str) -> (bool, u64) {
        let mut event = call(session, u64::MAX, "make test");
        event["kind"] = "tool_call".into();
        ["outcome", "result"].iter().for_each(|field| drop(event.as_object_mut().unwrap().remove(*field)));
        let client = json!({"name": "bench", "can": ["deny"]});
        let body = json!({"v": 1, "event": event, "record": false, "client": client, "deadline_ms": 2_000}).to_string();
        let head =
            format!("POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        (answer["decision"] == "deny", answer["state"]["lag_ms"].as_u64().unwrap_or_default())
    }
}

/// Sends until the queue has room.
fn send(producer: &ThreadedProducer<DefaultProducerContext>, key: &str, value: &str) {
    while producer.send(BaseRecord::to(TOPIC).key(key).payload(value)).is_err() {
        thread::sleep(Duration::from_millis(1));
    }
}

/// What a reader has seen of the commands.
#[derive(Default)]
struct Seen {
    /// When the first command of each looping session came.
    told: BTreeMap<String, Instant>,
    /// Commands for sessions that get on, and those that lift the block.
    wrong: u64,
    lifted: u64,
    blocked: bool,
}

impl Seen {
    fn read(&mut self, reader: &BaseConsumer) {
        while let Some(message) = reader.poll(Duration::from_millis(5)) {
            let command: Value = serde_json::from_slice(message.unwrap().payload().unwrap_or_default()).unwrap();
            let session = command["session_id"].as_str().unwrap_or_default();
            if command["tenant"] != "good" {
                continue;
            }
            self.wrong += u64::from(session.starts_with("well"));
            self.blocked |= session == "blocked" && command["action"] == "block";
            self.lifted += u64::from(session == "blocked" && command["action"] == "unblock");
            if session.starts_with("loop") {
                self.told.entry(session.to_owned()).or_insert_with(Instant::now);
            }
        }
    }
}

fn main() {
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    let fleet = Fleet::start(bootstrap, &options);
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("partitioner", "murmur2_random").set("compression.type", "lz4");
    let good: ThreadedProducer<DefaultProducerContext> = config.clone().set("linger.ms", "5").create().unwrap();
    let flood: ThreadedProducer<DefaultProducerContext> =
        config.clone().set("linger.ms", "20").set("queue.buffering.max.kbytes", "65536").create().unwrap();
    let reader: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "flood")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "5")
        .create()
        .unwrap();
    reader.subscribe(&[COMMANDS]).unwrap();
    let mut seen = Seen::default();
    let mut number = 0;
    until(&[&fleet.engine, &fleet.guard], "a block", PATIENCE, || {
        send(&good, "blocked", &call("blocked", number, "make test").to_string());
        number += 1;
        seen.read(&reader);
        (seen.blocked && fleet.ask("blocked").0).then_some(())
    });
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let (mut sent, mut asked, mut allowed, mut lag_ms) = (BTreeMap::new(), 0_u64, 0_u64, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = written.fetch_add(1, Ordering::Relaxed);
                // In batches: a sleep is longer than an event takes.
                if options.rate > 0 && number.is_multiple_of(BATCH) {
                    let due = began + Duration::from_micros(number * 1_000_000 / options.rate);
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                }
                let (key, event) = evil(number);
                send(&flood, &key, &event);
            }
        });
        let mut number = 0_u64;
        while began.elapsed() < Duration::from_secs(options.seconds) {
            let due = began + EVERY * number as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let (looping, well) = (format!("loop{number}"), format!("well{}", number % 50));
            (0..3).for_each(|at| send(&good, &looping, &call(&looping, at, "make test").to_string()));
            sent.insert(looping, Instant::now());
            let mut well_done = call(&well, number, &format!("make part-{number}"));
            (well_done["outcome"], well_done["result"]) = ("ok".into(), number.into());
            send(&good, &well, &well_done.to_string());
            if number.is_multiple_of(4) {
                let (is_refused, late_ms) = fleet.ask("blocked");
                asked += 1;
                allowed += u64::from(!is_refused);
                lag_ms = lag_ms.max(late_ms);
            }
            seen.read(&reader);
            number += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let ended = Instant::now();
    good.flush(Duration::from_secs(60)).unwrap();
    while seen.told.len() < sent.len() && ended.elapsed() < PATIENCE {
        fleet.engine.assert_runs("all commands have come");
        seen.read(&reader);
    }
    let mut late: Vec<f64> =
        sent.iter().filter_map(|(session, sent)| Some((*seen.told.get(session)? - *sent).as_secs_f64() * 1_000.0)).collect();
    late.sort_by(f64::total_cmp);
    let at = |part: f64| late.get(((late.len() as f64 * part) as usize).min(late.len().saturating_sub(1))).map(|ms| ms.round());
    let metrics = get(fleet.http, "/metrics").unwrap_or_default();
    let total = |name: &str| {
        let lines = metrics.lines().filter(|line| line.starts_with(&format!("loopwarden_{name}")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    println!(
        "{}",
        json!({
            "seconds": options.seconds, "rate": options.rate, "limit": options.limit, "evil_written": written.load(Ordering::Relaxed),
            "evil_limited": total("rejected_total"),
            "good_sessions": sent.len(), "lost": sent.len() - seen.told.len(), "wrong": seen.wrong, "lifted": seen.lifted,
            "asked": asked, "allowed": allowed, "lag_ms_max": lag_ms,
            "late_ms": {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)},
            "drained_after_s": ended.elapsed().as_secs(), "rss_mib": resident_mib(fleet.engine.id()),
        })
    );
}
