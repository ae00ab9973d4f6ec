//! The contract of `Log`, clause by clause, on a real broker.

use std::{cell::Cell, collections::BTreeMap, rc::Rc};

use loopwarden::event::{NextOffset, TaskId};
use loopwarden::log::kafka::KafkaLog;
use loopwarden::log::{Log, Output, Partitions};

use super::log_contract;
use super::log_contract::{Feed, Seen, Transactional};
use crate::{broker, world::World};

const PARTITIONS: Partitions = Partitions { session: 2, swarm: 2 };

struct Kafka {
    world: World,
    /// Somebody's transaction is open on the commands: what comes after it stays hidden as long as it is.
    is_held: Rc<Cell<bool>>,
}

impl log_contract::World for Kafka {
    type Log = KafkaLog;

    fn is_available() -> bool {
        broker::bootstrap().is_some()
    }

    fn new() -> Self {
        let world = World::new(broker::bootstrap().expect("available"), PARTITIONS.session);
        Self { world, is_held: Rc::default() }
    }

    fn partitions(&self) -> Partitions {
        PARTITIONS
    }

    fn open(&mut self) -> KafkaLog {
        self.world.open()
    }

    fn append(&mut self, partition: u32, key: &str, value: &str, timestamp_ms: i64) -> u64 {
        self.world.append(partition as i32, key, value, timestamp_ms)
    }

    fn outputs(&mut self, feed: Feed) -> Vec<Seen> {
        let topics = &self.world.options.topics;
        let topic = match feed {
            Feed::Commands => &topics.commands,
            Feed::DeadLetters => &topics.dead_letters,
        };
        let seen = if self.is_held.get() { self.world.read_as(topic, "read_committed") } else { self.world.read(topic) };
        let of_feed = |seen: crate::world::Seen| Seen {
            key: seen.key,
            value: seen.value,
            headers: seen.headers.into_iter().collect(),
            timestamp_ms: seen.timestamp_ms,
        };
        seen.into_iter().map(of_feed).collect()
    }

    fn state(&mut self, task: TaskId) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut state = BTreeMap::new();
        let changelog = self.world.read(&self.world.options.changelog_topic(task.stage));
        for seen in changelog.into_iter().filter(|seen| seen.partition as u32 == task.partition) {
            match seen.value {
                Some(value) => state.insert(seen.key, value),
                None => state.remove(&seen.key),
            };
        }
        state
    }

    fn committed(&mut self, task: TaskId) -> Option<NextOffset> {
        self.world.committed(task)
    }
}

impl Transactional for Kafka {
    fn abort_next(&mut self, log: &mut KafkaLog) {
        // The client refuses a record of this size when it is sent, after it took what was staged before.
        log.stage(Output { value: Some(vec![0; 2_000_000]), ..log_contract::command("too large", "") });
    }

    fn open_transaction(&mut self, output: &Output) -> Box<dyn FnOnce(bool)> {
        let rival = self.world.write_open(&self.world.options.topics.commands, output);
        self.is_held.set(true);
        let is_held = Rc::clone(&self.is_held);
        Box::new(move |committed| {
            rival.end(committed);
            is_held.set(false);
        })
    }
}

crate::contract!(every_log, super::Kafka);
crate::transactional_contract!(transactional_log, super::Kafka);
