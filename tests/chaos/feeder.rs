//! Writes the events of the kill loop, and waits where partitions are far behind.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use loopwarden::event::{Stage, TaskId, partition_of};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::auditor::Audit;
use crate::fleet::Fleet;
use crate::world::{PATIENCE, World};

const LOOK: Duration = Duration::from_millis(20);
/// Events of one partition that may wait for a commit while more are written: about half an hour of the fleet's time with twelve
/// partitions. It is compressed thirtyfold here; an earlier program (`make upgrade`) drops sums of a partition more than an hour behind.
const BACKLOG_MAX: u64 = 20_000;

/// Writes the fleet's events, in order, once each.
pub(crate) struct Feeder {
    producer: BaseProducer,
    topic: String,
    partitions: u32,
    fleet: Fleet,
    /// Events per partition.
    ends: BTreeMap<u32, u64>,
    pub(crate) produced: u64,
    /// Most events of one partition that waited for a commit while more were written.
    pub(crate) backlog_max: u64,
}

impl Feeder {
    pub(crate) fn new(world: &World, partitions: u32, seed: u64) -> Self {
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &world.options.bootstrap_servers)
            .set("enable.idempotence", "true")
            .set("linger.ms", "10")
            .set("delivery.timeout.ms", "600000")
            .create()
            .expect("a producer");
        let ends = (0..partitions).map(|partition| (partition, 0)).collect();
        Self {
            producer,
            topic: world.options.topics.input.clone(),
            partitions,
            fleet: Fleet::new(seed),
            ends,
            produced: 0,
            backlog_max: 0,
        }
    }

    /// Writes so many more.
    pub(crate) fn produce(&mut self, count: u64) {
        for event in self.fleet.by_ref().take(count as usize) {
            let partition = partition_of(event.session.as_bytes(), self.partitions);
            let mut record = BaseRecord::to(&self.topic)
                .partition(partition as i32)
                .key(event.session.as_bytes())
                .timestamp(event.timestamp_ms);
            if let Some(value) = &event.value {
                record = record.payload(value);
            }
            while let Err((error, again)) = self.producer.send(record) {
                assert_eq!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), "producing");
                record = again;
                self.producer.poll(Duration::from_millis(20));
            }
            self.producer.poll(Duration::ZERO);
            *self.ends.entry(partition).or_default() += 1;
            self.produced += 1;
        }
    }

    /// Most events of one partition that are not behind a Position.
    fn backlog(&self, audit: &Audit) -> u64 {
        let of = |(partition, end): (&u32, &u64)| {
            let task = TaskId { stage: Stage::Session, partition: *partition };
            end.saturating_sub(audit.positions.get(&task).map_or(0, |position| position.next_offset.0))
        };
        self.ends.iter().map(of).max().unwrap_or(0)
    }

    /// Waits until the broker has all of them.
    pub(crate) fn flush(&self) {
        self.producer.flush(PATIENCE).expect("delivered");
    }

    /// Writes until the target says so for the last time, on a thread of its own, and waits for partitions far behind.
    pub(crate) fn follow(mut self, target: Arc<AtomicU64>, last: u64, audit: Arc<Mutex<Audit>>) -> thread::JoinHandle<Self> {
        thread::spawn(move || {
            while self.produced < last {
                let behind = target.load(Ordering::Acquire).min(last).saturating_sub(self.produced);
                let backlog = self.backlog(&audit.lock().expect("not poisoned"));
                self.backlog_max = self.backlog_max.max(backlog);
                if behind == 0 || backlog >= BACKLOG_MAX {
                    thread::park_timeout(LOOK);
                    continue;
                }
                self.produce(behind.min(500));
            }
            self.flush();
            self
        })
    }
}
