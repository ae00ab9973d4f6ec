//! What a process takes for the events of a topic, seen from outside: by the offsets that its group commits, and by the kernel's account
//! of its time. So all systems are measured alike, whatever they say of themselves.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, TopicPartitionList};

use crate::process::watched::{Watched, until};
use crate::process::{cpu_seconds, resident_mib};

/// Longest run.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// A topic whose events a group is to read.
pub(crate) struct Track<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) partitions: i32,
    /// Events that are not measured: caches fill, and a JVM compiles.
    pub(crate) warm_up: u64,
    /// Where measuring ends.
    pub(crate) end: u64,
}

/// What the events after the warm-up have taken.
pub(crate) struct Taken {
    pub(crate) events: u64,
    pub(crate) wall: Duration,
    /// User and system time of all threads. Seconds.
    pub(crate) cpu_s: f64,
    /// Memory at the end.
    pub(crate) rss_mib: u64,
}

impl Taken {
    pub(crate) fn cpu_us_per_event(&self) -> f64 {
        self.cpu_s * 1e6 / self.events as f64
    }

    pub(crate) fn events_per_s(&self) -> f64 {
        self.events as f64 / self.wall.as_secs_f64()
    }
}

impl Track<'_> {
    /// How many events a group has committed, time after time.
    fn committed(&self, group: &str) -> impl Fn() -> u64 {
        // A transaction that is being committed does not count, and is not waited for.
        let asker: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap)
            .set("group.id", group)
            .set("isolation.level", "read_uncommitted")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        for partition in 0..self.partitions {
            list.add_partition(self.topic, partition);
        }
        move || {
            let Ok(answer) = asker.committed_offsets(list.clone(), Duration::from_secs(5)) else { return 0 };
            answer.elements().iter().filter_map(|one| one.offset().to_raw()).filter(|offset| *offset > 0).sum::<i64>() as u64
        }
    }

    /// Waits until a group has committed so many events.
    pub(crate) fn until_committed(&self, process: &Watched, group: &str, events: u64) {
        let committed = self.committed(group);
        until(&[process], "it has committed all events", PATIENCE, || (committed() >= events).then_some(()));
    }

    /// What a group takes for the events after the warm-up. Time begins and ends right after a commit, so that what is read and not yet
    /// committed is as much on both sides.
    pub(crate) fn measure(&self, process: &Watched, group: &str) -> Taken {
        let committed = self.committed(group);
        let mut before = 0;
        let mut at = |events: u64, awaited: &str| {
            until(&[process], awaited, PATIENCE, || {
                let now = committed();
                let is_new = now > std::mem::replace(&mut before, now);
                (is_new && now >= events).then(|| (now, cpu_seconds(process.id()), Instant::now()))
            })
        };
        let (from, cpu_s, began) = at(self.warm_up, "it has committed the warm-up");
        let (to, cpu_end_s, ended) = at(self.end, "it has committed what is measured");
        Taken { events: to - from, wall: ended - began, cpu_s: cpu_end_s - cpu_s, rss_mib: resident_mib(process.id()) }
    }
}
