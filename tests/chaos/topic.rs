//! The events of a run as its topic has them. A producer whose broker dies may write some of them twice: what was written is judged.

use std::collections::BTreeMap;

use loopwarden::clock::Deadline;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use crate::fleet::Event;
use crate::world::{PATIENCE, World};

/// All that a topic of events holds up to some ends, partitions merged by time, each in its own order.
pub(crate) struct TopicEvents {
    partitions: Vec<Partition>,
}

struct Partition {
    reader: BaseConsumer,
    /// Where it ends.
    end: i64,
    /// Offset of the next event after the head.
    next: i64,
    head: Option<Event>,
}

impl TopicEvents {
    pub(crate) fn of(world: &World, ends: &BTreeMap<u32, u64>) -> Self {
        Self { partitions: ends.iter().map(|(partition, end)| Partition::open(world, *partition as i32, *end as i64)).collect() }
    }
}

impl Partition {
    fn open(world: &World, partition: i32, end: i64) -> Self {
        let topic = &world.options.topics.input;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &world.options.bootstrap_servers).set("group.id", format!("{}-input", world.options.app));
        config.set("enable.auto.commit", "false");
        // There are many of them.
        config.set("queued.max.messages.kbytes", "4096").set("fetch.message.max.bytes", "524288");
        let reader: BaseConsumer = config.create().expect("a reader");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
        reader.assign(&list).expect("assigned");
        let mut this = Self { reader, end, next: 0, head: None };
        this.head = this.read();
        this
    }

    fn read(&mut self) -> Option<Event> {
        if self.next >= self.end {
            return None;
        }
        let deadline = Deadline::after(PATIENCE);
        let message = loop {
            match self.reader.poll(deadline.left()) {
                Some(Ok(message)) => break message,
                // Its broker has just died and come again.
                Some(Err(error)) => eprintln!("reading events: {error}"),
                None => panic!("no event {} of {}", self.next, self.end),
            }
        };
        assert_eq!(message.offset(), self.next, "events without a gap");
        self.next += 1;
        let session = String::from_utf8(message.key().expect("a key").to_vec()).expect("text");
        let timestamp_ms = message.timestamp().to_millis().expect("a time");
        Some(Event { session, value: message.payload().map(<[u8]>::to_vec), timestamp_ms })
    }
}

impl Iterator for TopicEvents {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let heads = self.partitions.iter_mut().filter(|partition| partition.head.is_some());
        let first = heads.min_by_key(|partition| partition.head.as_ref().map(|head| head.timestamp_ms))?;
        let next = first.read();
        std::mem::replace(&mut first.head, next)
    }
}
