//! Writes the events of the kill loop, and waits where partitions are far behind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::{collections::BTreeMap, thread, time::Duration};

use loopwarden::event::{Stage, TaskId, partition_of};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::auditor::Audit;
use crate::fleet::{Event, Fleet};
use crate::world::{PATIENCE, World};

const LOOK: Duration = Duration::from_millis(20);
/// Events of one partition that may wait for a commit while more are written: about half an hour of the fleet's time with twelve
/// partitions. It is compressed thirtyfold here; an earlier program (`make upgrade`) drops sums of a partition more than an hour behind.
const BACKLOG_MAX: u64 = 20_000;

/// An event of a person, which comes between those of the fleet.
pub(crate) struct Between {
    /// Key of its record.
    pub(crate) key: String,
    /// The event, by the time of the fleet at which it comes. Unix ms.
    pub(crate) make: Box<dyn FnOnce(i64) -> String + Send>,
    /// The command that it is about.
    pub(crate) about: Option<About>,
}

/// A command, by its episode and by the event that triggered it.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) episode: String,
    pub(crate) trigger: String,
}

/// Writes the fleet's events, in order, once each.
pub(crate) struct Feeder {
    producer: BaseProducer,
    topic: String,
    partitions: u32,
    fleet: Fleet,
    /// Events per partition.
    ends: BTreeMap<u32, u64>,
    pub(crate) produced: u64,
    /// Events of people, beside those.
    pub(crate) acted: u64,
    /// Time of the fleet's last event. Unix ms.
    now_ms: i64,
    /// Most events of one partition that waited for a commit while more were written.
    pub(crate) backlog_max: u64,
}

impl Feeder {
    pub(crate) fn new(world: &World, partitions: u32, fleet: Fleet) -> Self {
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
            fleet,
            ends,
            produced: 0,
            acted: 0,
            now_ms: 0,
            backlog_max: 0,
        }
    }

    /// Writes so many more.
    pub(crate) fn produce(&mut self, count: u64) {
        for _ in 0..count {
            let event = self.fleet.next().expect("an endless fleet");
            self.now_ms = event.timestamp_ms;
            self.write(&event);
            self.produced += 1;
        }
    }

    fn write(&mut self, event: &Event) {
        let partition = partition_of(event.session.as_bytes(), self.partitions);
        let mut record =
            BaseRecord::to(&self.topic).partition(partition as i32).key(event.session.as_bytes()).timestamp(event.timestamp_ms);
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
    }

    /// Writes what people have sent; whether more may come.
    fn act(&mut self, people: &Receiver<Between>) -> bool {
        loop {
            let Between { key, make, .. } = match people.try_recv() {
                Ok(between) => between,
                Err(error) => return error == TryRecvError::Empty,
            };
            let value = Some(make(self.now_ms).into_bytes());
            self.write(&Event { session: key, value, timestamp_ms: self.now_ms });
            self.acted += 1;
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

    /// Writes until the target says so for the last time, on a thread of its own, and waits for partitions far behind. What people send
    /// comes at once, as long as they may.
    pub(crate) fn follow(
        mut self,
        target: Arc<AtomicU64>,
        last: u64,
        audit: Arc<Mutex<Audit>>,
        people: Receiver<Between>,
    ) -> thread::JoinHandle<Self> {
        thread::spawn(move || {
            // Its time begins with its first event.
            self.produce(1);
            let mut may_act = true;
            while self.produced < last || may_act {
                may_act = self.act(&people);
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
