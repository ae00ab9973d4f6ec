//! The floor: the job of the others by hand, with rdkafka and nothing else. Each event is read into a tree, as they do it; calls are hashed
//! over their canonical arguments and compared with the last ones of their session; a transaction each 100 ms holds commands and offsets.
//!
//! It keeps no state that outlives it, so that it may not stand for any of the others. It is what the work itself and the client cost.

#![expect(clippy::disallowed_types, reason = "the map that anybody takes; no order of it reaches an output")]

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::{ClientConfig, Message};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Calls of a session that are looked at, and how many equal ones among them are a circle.
const HISTORY: usize = 20;
const THRESHOLD: usize = 3;
/// Between two transactions.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
const WAIT: Duration = Duration::from_secs(60);

type Hash = [u8; 16];

/// The last calls of each session.
#[derive(Default)]
struct Histories {
    sessions: HashMap<String, VecDeque<Hash>>,
    text: Vec<u8>,
}

impl Histories {
    /// The command that an event causes, if it does.
    fn take(&mut self, session: &str, event: &[u8]) -> Option<String> {
        // Members are ordered in it: written again, arguments are canonical.
        let event: Value = serde_json::from_slice(event).unwrap();
        if event["kind"] != "tool" {
            return None;
        }
        self.text.clear();
        self.text.extend_from_slice(event["tool"].as_str().unwrap_or_default().as_bytes());
        self.text.push(b':');
        serde_json::to_writer(&mut self.text, &event["args"]).unwrap();
        let hash: Hash = Sha256::digest(&self.text)[..16].try_into().unwrap();
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.to_owned(), VecDeque::new());
        }
        let history = self.sessions.get_mut(session)?;
        if history.len() == HISTORY {
            history.pop_front();
        }
        history.push_back(hash);
        let same = history.iter().filter(|one| **one == hash).count();
        (same >= THRESHOLD).then(|| {
            let id = event["id"].as_str().unwrap_or_default();
            format!(r#"{{"action":"block","session_id":"{session}","count":{same},"event_id":"{id}"}}"#)
        })
    }
}

/// Runs until it is ended from outside.
pub(crate) fn run(bootstrap: &str, input: &str, output: &str, group: &str) -> ! {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("fetch.queue.backoff.ms", "2")
        .create()
        .unwrap();
    consumer.subscribe(&[input]).unwrap();
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("transactional.id", group)
        .set("linger.ms", "5")
        .set("compression.type", "lz4")
        .create()
        .unwrap();
    producer.init_transactions(WAIT).unwrap();
    producer.begin_transaction().unwrap();
    let (mut histories, mut read, mut committed) = (Histories::default(), 0_u64, Instant::now());
    loop {
        if let Some(event) = consumer.poll(Duration::from_millis(10)) {
            let event = event.unwrap();
            let session = std::str::from_utf8(event.key().unwrap()).unwrap();
            if let Some(command) = histories.take(session, event.payload().unwrap()) {
                let record = BaseRecord::to(output).key(session).payload(&command);
                producer.send(record).map_err(|(error, _)| error).unwrap();
            }
            read += 1;
        }
        if read > 0 && committed.elapsed() >= COMMIT_EVERY {
            let offsets = consumer.position().unwrap();
            producer.send_offsets_to_transaction(&offsets, &consumer.group_metadata().unwrap(), WAIT).unwrap();
            producer.commit_transaction(WAIT).unwrap();
            producer.begin_transaction().unwrap();
            (read, committed) = (0, Instant::now());
        }
    }
}
