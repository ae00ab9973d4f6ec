//! The events of the benchmarks over Kafka: those of a file, repeated under new sessions until there are enough.
//!
//! Each repetition lies at event times after the one before: at the same times its sessions would be long idle when they begin, and
//! forgotten with the next event.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

/// `../shared/data/events.ndjson.zst` where it is, else the sample fleet.
pub(crate) fn source() -> PathBuf {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/events.ndjson.zst");
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/demo/fleet.ndjson");
    if shared.is_file() { shared } else { fleet }
}

pub(crate) fn lines(source: &Path) -> Vec<String> {
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
pub(crate) fn produce(bootstrap: &str, topic: &str, source: &Path, count: usize) -> u64 {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("compression.type", "lz4")
        .set("linger.ms", "20")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "200000")
        .set("queue.buffering.max.kbytes", "262144")
        .set("partitioner", "murmur2_random")
        .create()
        .unwrap();
    let lines = lines(source);
    let events: Vec<Timed<'_>> = lines.iter().map(|line| Timed::of(line)).collect();
    let first = events.iter().map(|event| event.time_ms).min().unwrap();
    let span_ms = events.iter().map(|event| event.time_ms).max().unwrap() - first + 3_600_000;
    // The last repetition ends before today: an event from the future is moved to its record's time.
    let repetitions = count.div_ceil(events.len()) as i64;
    let begin_ms = 1_735_689_600_000 - repetitions * span_ms;
    assert!(begin_ms >= 0, "so many repetitions begin before 1970");
    let mut sent = 0;
    for repetition in 0.. {
        for event in &events {
            if sent >= count {
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
