//! The least that lies between an event and a command at this broker: a loop that reads, writes and commits, and judges nothing. What
//! `latency` measures of the program is to be read against it.
//!
//! It writes for each event a record of a lane's size to a changelog, and a command where a session that loops has called three times. It
//! commits by the rule of a lane: at once when a command waits and there is nothing more to read, else after 100 ms. All is sent in one
//! burst then. A loop that commits without a pause keeps the broker busier, and its commands come later. No decoding, no detection, no store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Message};

use crate::process::{PATIENCE, create_topics};
use crate::subject::commands;

/// What a lane writes of a step to its changelog. Bytes.
const ROW: [u8; 200] = [b'x'; 200];
/// Records of a poll, as those of the client.
const BATCH: usize = 1_000;
/// Calls that make a circle.
const CALLS: u32 = 3;
/// Longest time that an event waits for its commit.
const COMMIT_EVERY: Duration = Duration::from_millis(100);

/// The running loop. Dropping it ends it.
pub(crate) struct Bare {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bare {
    /// Makes its topics, and starts it. Names of sessions that loop contain `mark`.
    pub(crate) fn start(bootstrap: &str, name: &str, partitions: i32, mark: &'static str) -> Self {
        let (input, output, changelog) = (format!("{name}-events"), commands(name), format!("{name}-state"));
        create_topics(bootstrap, &[&input, &output, &changelog], partitions);
        let (consumer, producer) = (consumer(bootstrap, name), producer(bootstrap, name));
        consumer.subscribe(&[&input]).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let mut pending = Pending { changelog, output, mark, ..Pending::default() };
        let thread = std::thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                let first = consumer.poll(Duration::from_millis(10));
                let others = std::iter::from_fn(|| consumer.poll(Duration::ZERO));
                first.into_iter().chain(others).take(BATCH).for_each(|event| pending.add(&event.unwrap()));
                if pending.is_due() {
                    pending.commit(&consumer, &producer);
                }
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()), "the bare loop failed");
    }
}

/// A consumer and a producer as a lane has them, as far as a delay hangs on it.
fn consumer(bootstrap: &str, name: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", name).set("auto.offset.reset", "earliest");
    config.set("enable.auto.commit", "false").set("fetch.queue.backoff.ms", "2").create().unwrap()
}

fn producer(bootstrap: &str, name: &str) -> ThreadedProducer<DefaultProducerContext> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("transactional.id", name).set("linger.ms", "0");
    let producer: ThreadedProducer<DefaultProducerContext> =
        config.set("socket.nagle.disable", "true").set("retry.backoff.ms", "5").create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer
}

/// What was read and is not yet committed.
#[derive(Default)]
struct Pending {
    changelog: String,
    output: String,
    mark: &'static str,
    /// Partition and key of each event.
    events: Vec<(i32, String)>,
    commands: Vec<(i32, String)>,
    since: Option<Instant>,
    /// How often each session that loops has called.
    calls: BTreeMap<String, u32>,
}

impl Pending {
    fn add(&mut self, event: &BorrowedMessage<'_>) {
        let session = std::str::from_utf8(event.key().unwrap_or_default()).unwrap();
        self.since.get_or_insert_with(Instant::now);
        self.events.push((event.partition(), session.to_owned()));
        if session.contains(self.mark) {
            let called = self.calls.entry(session.to_owned()).or_default();
            *called += 1;
            if *called >= CALLS {
                self.commands.push((event.partition(), session.to_owned()));
            }
        }
    }

    fn is_due(&self) -> bool {
        !self.commands.is_empty() || self.since.is_some_and(|since| since.elapsed() >= COMMIT_EVERY)
    }

    fn commit(&mut self, consumer: &BaseConsumer, producer: &ThreadedProducer<DefaultProducerContext>) {
        let send = |topic: &str, partition: i32, key: &str, value: &[u8]| {
            let record = BaseRecord::to(topic).partition(partition).key(key).payload(value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        };
        producer.begin_transaction().unwrap();
        for (partition, session) in self.events.drain(..) {
            send(&self.changelog, partition, &session, &ROW);
        }
        for (partition, session) in self.commands.drain(..) {
            let command = format!("{{\"action\":\"nudge\",\"session_id\":\"{session}\"}}");
            send(&self.output, partition, &session, command.as_bytes());
        }
        let offsets = consumer.position().unwrap();
        producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), PATIENCE).unwrap();
        // The client looks for the end of a flush ten times a second only.
        while producer.in_flight_count() > 0 {
            std::thread::park_timeout(Duration::from_micros(50));
        }
        producer.commit_transaction(PATIENCE).unwrap();
        self.since = None;
    }
}
