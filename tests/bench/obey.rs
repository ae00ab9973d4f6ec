//! How soon agents obey a guard beside them, with a fleet on Kafka behind it.
//!
//! `cargo bench --bench obey -- [--rows 10000] [--rate 5000] [--seconds 20] [--sessions 300]`
//!
//! So many sessions run into a block, so that the guard has as many rows in force. Then it is asked at a steady rate, over eight
//! connections, about calls that are refused and calls that are not: what an answer takes from when it was due to be asked for. Then further
//! sessions run into a block one after the other: the time from where a `read_committed` reader sees the block to the first refusal, with a
//! question each millisecond. One JSON line each, and what the guard holds in memory.

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

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{collections::BTreeSet, net::TcpStream, thread};

use loopwarden::clock;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
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
use process::{free_port, is_ready, resident_mib, scratch};

const TOPIC: &str = "agents.tool-events.v1";
const COMMANDS: &str = "agents.loop-commands.v1";
/// Calls of a session until the guard must know a block. Ten seconds from one to the next: an agent gets time to heed a nudge.
const CALLS: u64 = 14;
const CONNECTIONS: u64 = 8;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(300);

struct Options {
    rows: usize,
    rate: u64,
    seconds: u64,
    sessions: usize,
}

fn main() {
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    let fleet = Fleet::start(bootstrap);
    let sessions: Vec<String> = (0..options.rows).map(|number| format!("row-{number}")).collect();
    fleet.block(&sessions);
    fleet.until_refused(sessions.last().unwrap());
    let checks = checks(&fleet.guard_address(), &options);
    println!(
        "{}",
        json!({"figure": "check", "rows": options.rows, "per_s": options.rate, "n": checks.len(), "ms": quantiles(checks)})
    );
    println!("{}", json!({"figure": "guard memory", "sessions": options.rows, "rss_mib": resident_mib(fleet.guard.id())}));
    let obeyed = (0..options.sessions).map(|number| fleet.obeyed(&format!("one-{number}"))).collect();
    println!("{}", json!({"figure": "block obeyed after its commit", "n": options.sessions, "ms": quantiles(obeyed)}));
}

fn options() -> Options {
    let mut options = Options { rows: 10_000, rate: 5_000, seconds: 20, sessions: 300 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--rows" => options.rows = value().parse().unwrap(),
            "--rate" => options.rate = value().parse().unwrap(),
            "--seconds" => options.seconds = value().parse().unwrap(),
            "--sessions" => options.sessions = value().parse().unwrap(),
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

/// p50, p90, p99 and the greatest, in milliseconds.
fn quantiles(mut found: Vec<Duration>) -> Value {
    found.sort_unstable();
    let at = |part: f64| found.get(((found.len() as f64 * part) as usize).min(found.len().saturating_sub(1)));
    let ms = |part| at(part).map_or(0.0, |delay| (delay.as_secs_f64() * 1e5).round() / 100.0);
    json!({"p50": ms(0.5), "p90": ms(0.9), "p99": ms(0.99), "max": ms(1.0)})
}

/// The process of a fleet, a guard, and the reader that sees commands when they are committed.
struct Fleet {
    /// Ended first, as fields are dropped in their order.
    guard: Watched,
    engine: Watched,
    port: u16,
    producer: ThreadedProducer<DefaultProducerContext>,
    reader: BaseConsumer,
}

fn program(name: &str, arguments: &[&str]) -> Watched {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwarden"));
    Watched::start(&format!("loopwarden {name}"), command.args(arguments), &scratch("obey").join(name))
}

impl Fleet {
    fn start(bootstrap: &str) -> Self {
        let data = scratch("obey").join("data");
        let kafka = format!("kafka.bootstrap_servers={bootstrap}");
        program("topics", &["topics", "create", "--partitions", "4", "--set", &kafka]).finish();
        let (http, port) = (free_port(), free_port());
        let (data, listen, guard) =
            (data.display().to_string(), format!("http.listen=127.0.0.1:{http}"), format!("127.0.0.1:{port}"));
        let run = ["run", "--data-dir", &data, "--set", &listen, "--set", "mode=live", "--set", "lanes=1", "--set", &kafka];
        let engine = program("run", &run);
        let guard = program("guard", &["guard", "--state", "kafka", "--listen", &guard, "--set", &kafka]);
        for port in [http, port] {
            until(&[&engine, &guard], "both are ready", PATIENCE, || is_ready(port));
        }
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        let reader: BaseConsumer = config
            .clone()
            .set("group.id", "obey")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "5")
            .create()
            .unwrap();
        reader.subscribe(&[COMMANDS]).unwrap();
        let producer =
            config.set("partitioner", "murmur2_random").set("linger.ms", "1").set("compression.type", "lz4").create().unwrap();
        Self { guard, engine, port, producer, reader }
    }

    fn guard_address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn send(&self, session: &str, number: u64) {
        let event = json!({"time": clock::now_ms() - (CALLS as i64 - number as i64) * 10_000}).as_object().unwrap().clone();
        let mut whole = call(session, number, "tool");
        whole.as_object_mut().unwrap().extend(event);
        let text = whole.to_string();
        while self.producer.send(BaseRecord::to(TOPIC).key(session).payload(&text)).is_err() {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends the same failing call of all sessions until each is blocked, as the commands say.
    fn block(&self, sessions: &[String]) {
        for number in 0..CALLS {
            sessions.iter().for_each(|session| self.send(session, number));
        }
        let mut open: BTreeSet<&str> = sessions.iter().map(String::as_str).collect();
        self.until("all sessions are blocked", || {
            while !open.is_empty() {
                open.remove(self.next_block()?.as_str());
            }
            Some(())
        });
    }

    /// Waits for something that the process and the guard bring about.
    fn until<T>(&self, awaited: &str, look: impl FnMut() -> Option<T>) -> T {
        until(&[&self.engine, &self.guard], awaited, PATIENCE, look)
    }

    /// The session of the next block, if one comes at once.
    fn next_block(&self) -> Option<String> {
        loop {
            let message = self.reader.poll(Duration::from_millis(100))?.unwrap();
            let command: Value = serde_json::from_slice(message.payload().unwrap_or_default()).unwrap();
            if command["action"] == "block" {
                return Some(command["session_id"].as_str().unwrap().to_owned());
            }
        }
    }

    fn until_refused(&self, session: &str) {
        let mut asking = Asking::connect(&self.guard_address());
        self.until("the guard refuses a call", || asking.is_refused(session).then_some(()));
    }

    /// Lets a session run into a block: how long after a reader saw it its call is refused.
    fn obeyed(&self, session: &str) -> Duration {
        (0..CALLS).for_each(|number| self.send(session, number));
        let mut asking = Asking::connect(&self.guard_address());
        self.until("a block of the session", || std::iter::from_fn(|| self.next_block()).find(|blocked| blocked == session));
        let seen = Instant::now();
        while !asking.is_refused(session) {
            assert!(seen.elapsed() < PATIENCE, "{session} may go on");
            thread::sleep(Duration::from_millis(1));
        }
        seen.elapsed()
    }
}

fn call(session: &str, number: u64, kind: &str) -> Value {
    json!({"id": format!("{session}-{number}-{kind}"), "kind": kind, "session_id": session, "call_id": format!("c{number}"),
           "tool": "Bash", "args": {"command": "make test"}, "outcome": "error", "result": "failed"})
}

/// One connection to the guard.
struct Asking {
    stream: BufReader<TcpStream>,
}

impl Asking {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    fn is_refused(&mut self, session: &str) -> bool {
        let mut event = call(session, u64::MAX, "tool_call");
        for field in ["outcome", "result"] {
            event.as_object_mut().unwrap().remove(field);
        }
        self.ask(&request(&event)).contains("\"decision\":\"deny\"")
    }

    fn ask(&mut self, request: &str) -> String {
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}

fn request(event: &Value) -> String {
    let client = json!({"name": "bench", "can": ["deny", "context_after"]});
    let body = json!({"v": 1, "event": event, "record": false, "client": client, "deadline_ms": 2_000}).to_string();
    format!(
        "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Asks at a steady rate; what each answer took from when it was due.
fn checks(address: &str, options: &Options) -> Vec<Duration> {
    let (per_connection, rows) = (options.rate / CONNECTIONS, options.rows as u64);
    let asked = per_connection * options.seconds;
    let began = Instant::now() + Duration::from_millis(100);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|connection| {
                scope.spawn(move || {
                    let mut asking = Asking::connect(address);
                    let mut took = Vec::new();
                    for number in 0..asked {
                        // Every second call is one that the guard refuses.
                        let row = (number * 7919 + connection * 104_729) % rows;
                        let session = if number % 2 == 0 { format!("row-{row}") } else { format!("new-{row}") };
                        let request = request(&call(&session, number, "tool_call"));
                        let due = began + Duration::from_micros((number * CONNECTIONS + connection) * 1_000_000 / options.rate);
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                        asking.ask(&request);
                        took.push(due.elapsed());
                    }
                    took
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}
