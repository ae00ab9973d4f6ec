//! Sessions that loop in each partition, ten times a second, and the reader that notes when their commands come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use loopwarden::{clock, event::partition_of};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::BaseRecord;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use serde_json::{Value, json};

use crate::Fleet;

const PROBE_EVERY: Duration = Duration::from_millis(100);

/// When commands of each partition were read, wall clock in ms.
pub(super) type Seen = BTreeMap<u32, Vec<i64>>;

/// Sessions that loop, and the reader of their commands.
pub(super) struct Probes {
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Probes {
    pub(super) fn start(bootstrap: &str, fleet: &Fleet) -> Self {
        let (seen, is_over) = (Arc::new(Mutex::new(Seen::new())), Arc::new(AtomicBool::new(false)));
        let partitions = fleet.options.partitions;
        let reader: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", format!("{}-reader", fleet.name))
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "10")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(&format!("{}-commands", fleet.name), partition as i32, Offset::End).unwrap();
        }
        reader.assign(&list).unwrap();
        let (told, over) = (Arc::clone(&seen), Arc::clone(&is_over));
        let read = move || {
            while !over.load(Ordering::Acquire) {
                let Some(Ok(message)) = reader.poll(Duration::from_millis(20)) else { continue };
                let now_ms = clock::now_ms();
                let command: Value = serde_json::from_slice(message.payload().unwrap_or_default()).unwrap();
                if let Some(session) = command["session_id"].as_str().filter(|session| session.starts_with("probe-")) {
                    told.lock().unwrap().entry(partition_of(session.as_bytes(), partitions)).or_default().push(now_ms);
                }
            }
        };
        let (producer, topic, over) = (fleet.producer(), format!("{}-events", fleet.name), Arc::clone(&is_over));
        let probe = move || {
            let (mut number, mut next) = (0_u64, Instant::now());
            while !over.load(Ordering::Acquire) {
                let mut open: BTreeSet<u32> = (0..partitions).collect();
                while !open.is_empty() {
                    number += 1;
                    let session = format!("probe-{number}");
                    if !open.remove(&partition_of(session.as_bytes(), partitions)) {
                        continue;
                    }
                    for attempt in 0..3 {
                        let event = json!({
                            "id": format!("{session}.{attempt}"), "kind": "tool", "session_id": session, "time": clock::now_ms(),
                            "tool": "http_get", "args": {"url": "http://dead"}, "outcome": "error",
                            "error": {"message": "connection refused"},
                        });
                        let json = event.to_string();
                        producer.send(BaseRecord::to(&topic).key(&session).payload(&json)).map_err(|(error, _)| error).unwrap();
                    }
                }
                next += PROBE_EVERY;
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        Self { seen, is_over, threads: vec![thread::spawn(read), thread::spawn(probe)] }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    pub(super) fn stop(self) {
        self.is_over.store(true, Ordering::Release);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
