//! Which sessions the outputs of a job block: what every job of the comparison must agree on, however often it says so.

use std::{collections::BTreeSet, time::Duration};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

/// Sessions with a committed record of action `block` in a topic whose keys are sessions.
pub(crate) fn sessions(bootstrap: &str, topic: &str) -> BTreeSet<String> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "bench-blocked")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(20)).unwrap();
    let mut open: BTreeSet<i32> =
        metadata.topics().iter().flat_map(|topic| topic.partitions()).map(|partition| partition.id()).collect();
    let mut assignment = TopicPartitionList::new();
    for partition in &open {
        assignment.add_partition_offset(topic, *partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut found = BTreeSet::new();
    while !open.is_empty() {
        match consumer.poll(Duration::from_secs(20)) {
            Some(Ok(record)) => {
                let (Some(key), Some(Ok(value))) = (record.key(), record.payload_view::<str>()) else { continue };
                if value.contains(r#""action":"block""#) {
                    found.insert(String::from_utf8_lossy(key).into_owned());
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                open.remove(&partition);
            }
            other => panic!("{topic}: {other:?}"),
        }
    }
    found
}
