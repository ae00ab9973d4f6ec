//! What a transaction costs at this broker with nothing around it: the calls of a commit as anybody would write them, records of a
//! lane's size, no detection, no store, no load. What `latency` measures is to be read beside it.
//!
//! `cargo bench --bench commit -- [--partitions 1,4] [--commits N] [--records N]`
//!
//! Each transaction writes `--records` records of 200 bytes to each partition of a changelog, one record to one other topic, and the offset of
//! each partition of an input. One JSON line per number of partitions: median and 99th percentile of each step and of all, milliseconds.
//! The first fifth is not counted.

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

use std::time::{Duration, Instant};

use loopwarden::clock::Stopwatch;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

#[path = "../kafka/broker.rs"]
mod broker;
#[path = "process.rs"]
mod process;
#[path = "../kafka/proxy.rs"]
mod proxy;
use process as world;
use process::create_topics;

const WAIT: Duration = Duration::from_secs(30);
/// Between two transactions: a lane rests about as long as it commits.
const REST: Duration = Duration::from_millis(15);
const STEPS: [&str; 4] = ["send", "offsets", "drain", "commit"];

struct Options {
    partitions: Vec<i32>,
    commits: usize,
    records: usize,
}

fn main() {
    let options = options();
    let Some(bootstrap) = broker::bootstrap() else { return };
    for partitions in &options.partitions {
        measure(bootstrap, *partitions, &options);
    }
}

fn options() -> Options {
    let mut options = Options { partitions: vec![1, 4], commits: 1_000, records: 20 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap();
        match argument.as_str() {
            "--partitions" => options.partitions = value().split(',').map(|number| number.parse().unwrap()).collect(),
            "--commits" => options.commits = value().parse().unwrap(),
            "--records" => options.records = value().parse().unwrap(),
            // Cargo's own word to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    options
}

fn measure(bootstrap: &str, partitions: i32, options: &Options) {
    let name = |what: &str| format!("commit-{}-{partitions}-{what}", std::process::id());
    let [input, changelog, commands] = ["input", "changelog", "commands"].map(name);
    create_topics(bootstrap, &[&input, &changelog, &commands], partitions);
    let consumer = member(bootstrap, &input, &name("group"), partitions);
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", name("id"))
        .set("linger.ms", "0")
        .set("socket.nagle.disable", "true")
        .set("retry.backoff.ms", "5")
        .create()
        .unwrap();
    producer.init_transactions(WAIT).unwrap();

    let value = vec![b'x'; 200];
    let mut taken: Vec<[u64; STEPS.len()]> = Vec::new();
    for commit in 0..options.commits {
        std::thread::park_timeout(REST);
        let mut watch = Stopwatch::start();
        producer.begin_transaction().unwrap();
        for partition in 0..partitions {
            for number in 0..options.records {
                let key = number.to_string();
                producer
                    .send(BaseRecord::to(&changelog).partition(partition).key(&key).payload(&value))
                    .map_err(|(error, _)| error)
                    .unwrap();
            }
        }
        producer.send(BaseRecord::to(&commands).partition(0).key("session").payload(&value)).map_err(|(error, _)| error).unwrap();
        let send = watch.lap_us();
        let mut offsets = TopicPartitionList::new();
        for partition in 0..partitions {
            offsets.add_partition_offset(&input, partition, Offset::Offset(commit as i64 + 1)).unwrap();
        }
        producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), WAIT).unwrap();
        let offered = watch.lap_us();
        while producer.in_flight_count() > 0 {
            std::thread::park_timeout(Duration::from_micros(50));
        }
        let drain = watch.lap_us();
        producer.commit_transaction(WAIT).unwrap();
        taken.push([send, offered, drain, watch.lap_us()]);
    }
    report(partitions, options, &taken[options.commits / 5..]);
}

fn report(partitions: i32, options: &Options, taken: &[[u64; STEPS.len()]]) {
    let figures = |of: &dyn Fn(&[u64; STEPS.len()]) -> u64| {
        let mut all: Vec<u64> = taken.iter().map(of).collect();
        all.sort_unstable();
        let at = |per_cent: usize| all[(all.len() - 1) * per_cent / 100] as f64 / 1e3;
        format!("{{\"p50_ms\":{:.2},\"p99_ms\":{:.2}}}", at(50), at(99))
    };
    let steps: Vec<String> =
        STEPS.iter().enumerate().map(|(at, step)| format!("\"{step}\":{}", figures(&|one| one[at]))).collect();
    println!(
        "{{\"partitions\":{partitions},\"records\":{},\"commits\":{},\"all\":{},{}}}",
        options.records * partitions as usize + 1,
        taken.len(),
        figures(&|one| one.iter().sum()),
        steps.join(",")
    );
}

/// A member of a group that has all partitions of the input.
fn member(bootstrap: &str, input: &str, group: &str, partitions: i32) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&[input]).unwrap();
    let begun = Instant::now();
    while consumer.assignment().unwrap().count() < partitions as usize {
        assert!(begun.elapsed() < WAIT, "no assignment");
        let _ = consumer.poll(Duration::from_millis(50));
    }
    consumer
}
