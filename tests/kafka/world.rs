//! One test's part of the broker: topics of its own, lanes on them, and a reader that sees what everybody may see.

use std::sync::atomic::{AtomicU32, Ordering};
use std::{cell::Cell, collections::BTreeMap, time::Duration};

use loopwarden::event::{NextOffset, Stage, TaskId};
use loopwarden::log::kafka::{GroupProtocol, KafkaLog, KafkaOptions, NativeSettings, Security, Start, TopicNames};
use loopwarden::log::{CommitOutcome, Destination, Flow, Log, LogEvent, Output};
use loopwarden::{
    clock, clock::Deadline, log::kafka::admin::topics as admin, log::kafka::admin::topics::Admin, store::StoreOwner,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, FutureProducer, FutureRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use tokio::runtime::Builder;

/// Whatever a broker on this machine does takes less.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// Of the groups that this thread's test makes.
    static PROTOCOL: Cell<GroupProtocol> = const { Cell::new(GroupProtocol::Classic) };
}

/// From here on the groups of this test speak this protocol.
pub(crate) fn speak(protocol: GroupProtocol) {
    PROTOCOL.set(protocol);
}

/// One test's topics.
pub(crate) struct World {
    /// Options of lane 0 of instance `lw-0`.
    pub(crate) options: KafkaOptions,
}

/// A record as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp_ms: i64,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
}

pub(crate) fn session(partition: u32) -> TaskId {
    TaskId { stage: Stage::Session, partition }
}

pub(crate) fn swarm(partition: u32) -> TaskId {
    TaskId { stage: Stage::Swarm, partition }
}

pub(crate) fn output(destination: Destination, key: &str, value: &str) -> Output {
    Output {
        destination,
        key: key.as_bytes().to_vec(),
        value: Some(value.as_bytes().to_vec()),
        headers: loopwarden::log::Headers::default(),
        timestamp_ms: 1_700_000_000_000,
    }
}

impl World {
    /// Topics of so many partitions, on this broker, that no other test knows.
    pub(crate) fn new(bootstrap: &str, partitions: u32) -> Self {
        Self::replicated(bootstrap, partitions, 1)
    }

    /// The same on so many brokers each.
    pub(crate) fn replicated(bootstrap: &str, partitions: u32, copies: u16) -> Self {
        let world = Self::named(bootstrap);
        let admin = Admin::new(&world.options).expect("an admin client");
        let mut plans = admin::plan(&world.options, partitions, copies);
        // Fixed timestamps of the distant past: they are kept, and nothing is deleted by age. Sums stay as planned, which keeps them.
        for plan in plans.iter_mut().filter(|plan| plan.purpose != admin::Purpose::SwarmCounts) {
            plan.config.retain(|(key, _)| !matches!(*key, "retention.ms" | "message.timestamp.type"));
            plan.config.push(("retention.ms", "-1".into()));
        }
        admin.create(&plans).expect("topics");
        world
    }

    /// Names that no other test knows; there are no topics yet.
    pub(crate) fn named(bootstrap: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self::attach(bootstrap, format!("t{}-{}", clock::now_ms(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Topics that exist already: another process made them.
    pub(crate) fn attach(bootstrap: &str, app: String) -> Self {
        let options = KafkaOptions {
            bootstrap_servers: bootstrap.to_owned(),
            topics: TopicNames {
                input: format!("{app}.events"),
                commands: format!("{app}.commands"),
                state: format!("{app}.state"),
                dead_letters: format!("{app}.dlq"),
            },
            app,
            instance: "lw-0".into(),
            lane: 0,
            group_protocol: PROTOCOL.get(),
            start: Start::Earliest,
            security: Security::default(),
            native: NativeSettings::default(),
            fetch_bytes_max: 16 << 20,
            swarm: true,
            reads: &[Stage::Session, Stage::Swarm],
            value_bytes_max: 256 * 1024,
            rekeyed_to: None,
        };
        Self { options }
    }

    /// Options of another lane or instance.
    pub(crate) fn options_of(&self, instance: &str, lane: u32) -> KafkaOptions {
        KafkaOptions { instance: instance.into(), lane, ..self.options.clone() }
    }

    /// How long the group waits for a lane that says nothing. Under the consumer protocol the brokers of the tests say so: 6 s.
    pub(crate) fn set_session(&mut self, session_ms: u32, heartbeat_ms: u32) {
        if self.options.group_protocol == GroupProtocol::Classic {
            self.options.native.consumer.extend([
                ("session.timeout.ms".to_owned(), session_ms.to_string()),
                ("heartbeat.interval.ms".to_owned(), heartbeat_ms.to_string()),
            ]);
        }
    }

    /// Whom the state of a process belongs to.
    pub(crate) fn owner(&self, instance: &str) -> StoreOwner {
        let cluster = Admin::new(&self.options).and_then(|admin| admin.cluster_id(&|_| ())).expect("a cluster");
        StoreOwner { app: self.options.app.clone(), instance: instance.to_owned(), cluster: Some(cluster) }
    }

    /// Opens the log of lane 0 of `lw-0`.
    pub(crate) fn open(&self) -> KafkaLog {
        KafkaLog::open(self.options.clone()).expect("a log")
    }

    /// Opens it, waits for all tasks of both stages, and starts each at 0.
    pub(crate) fn running(&self, partitions: u32) -> KafkaLog {
        let mut log = self.open();
        let tasks = join(&mut log, partitions as usize * 2);
        for task in tasks {
            log.start(task, NextOffset(0)).expect("started");
        }
        log
    }

    /// Writes events outside of any transaction: (partition, key, value).
    pub(crate) fn produce(&self, events: &[(i32, &str, &str)]) {
        self.produce_to(&self.options.topics.input, events);
    }

    /// Writes to another topic: (partition, key, value).
    pub(crate) fn produce_to(&self, topic: &str, records: &[(i32, &str, &str)]) {
        let producer: BaseProducer = self.client().create().expect("a producer");
        for (partition, key, value) in records {
            producer.send(BaseRecord::to(topic).partition(*partition).key(*key).payload(*value)).expect("queued");
        }
        producer.flush(PATIENCE).expect("delivered");
    }

    /// Writes so many events to partition 0, each with so many headers.
    pub(crate) fn produce_with_headers(&self, events: usize, headers: usize) {
        let producer: BaseProducer = self.client().create().expect("a producer");
        for _ in 0..events {
            let more = |headers: OwnedHeaders, _| headers.insert(Header { key: "h", value: Some("") });
            let headers = (0..headers).fold(OwnedHeaders::new(), more);
            let record = BaseRecord::<str, str>::to(&self.options.topics.input).partition(0).payload("e").headers(headers);
            producer.send(record).map_err(|(error, _)| error).expect("queued");
        }
        producer.flush(PATIENCE).expect("delivered");
    }

    /// Writes one event at a time of its own, and says at which offset.
    pub(crate) fn append(&self, partition: i32, key: &str, value: &str, timestamp_ms: i64) -> u64 {
        let producer: FutureProducer = self.client().create().expect("a producer");
        let record = FutureRecord::to(&self.options.topics.input).partition(partition).key(key).payload(value);
        let sent = producer.send_result(record.timestamp(timestamp_ms)).map_err(|(error, _)| error).expect("queued");
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(sent).expect("a report").map_err(|(error, _)| error).expect("delivered").offset as u64
    }

    /// A producer outside of any transaction. Idempotent: a batch that is sent again stays in its place.
    pub(crate) fn writer(&self) -> BaseProducer {
        let mut config = self.client();
        config.set("queue.buffering.max.kbytes", "1000000").set("enable.idempotence", "true");
        config.create().expect("a producer")
    }

    /// Writes one record with a time.
    pub(crate) fn write(&self, producer: &mut BaseProducer, partition: i32, value: &str, timestamp_ms: i64) {
        let record = BaseRecord::<str, str>::to(&self.options.topics.input).partition(partition).payload(value);
        producer.send(record.timestamp(timestamp_ms)).map_err(|(error, _)| error).expect("queued");
    }

    /// Waits until everything is written.
    pub(crate) fn flush(&self, producer: &BaseProducer) {
        producer.flush(PATIENCE).expect("delivered");
    }

    /// The group's stable offset of a task, asked by a client of nobody.
    pub(crate) fn committed(&self, task: TaskId) -> Option<NextOffset> {
        let asker: BaseConsumer = self
            .client()
            .set("group.id", &self.options.app)
            .set("isolation.level", "read_committed")
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.options.input_topic(task.stage), task.partition as i32);
        let list = asker.committed_offsets(list, PATIENCE).expect("an answer");
        match list.elements()[0].offset() {
            Offset::Offset(offset) => Some(NextOffset(offset as u64)),
            _ => None,
        }
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.options.bootstrap_servers);
        config
    }

    /// Waits until whoever reads what is committed can see everything that was written so far: Kafka says that a transaction has ended
    /// before it writes the markers that say so in the topic.
    pub(crate) fn until_stable(&self, topic: &str) {
        let reader =
            |isolation: &str| -> BaseConsumer { self.client().set("isolation.level", isolation).create().expect("a reader") };
        let (all, committed) = (reader("read_uncommitted"), reader("read_committed"));
        let end = |reader: &BaseConsumer, at: i32| reader.fetch_watermarks(topic, at, PATIENCE).expect("watermarks").1;
        let metadata = all.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        for partition in 0..metadata.topics()[0].partitions().len() as i32 {
            let written = end(&all, partition);
            let deadline = Deadline::after(PATIENCE);
            while end(&committed, partition) < written {
                assert!(!deadline.is_over(), "a transaction on {topic}/{partition} does not end");
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
    }

    /// What a `read_committed` reader sees of a topic once every transaction on it has ended.
    pub(crate) fn read(&self, topic: &str) -> Vec<Seen> {
        self.until_stable(topic);
        self.read_as(topic, "read_committed")
    }

    /// What a reader of this isolation level sees of a topic now.
    pub(crate) fn read_as(&self, topic: &str, isolation: &str) -> Vec<Seen> {
        let reader: BaseConsumer = self
            .client()
            .set("group.id", format!("{}-auditor", self.options.app))
            .set("isolation.level", isolation)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .create()
            .expect("a reader");
        let metadata = reader.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
        let mut open = metadata.topics()[0].partitions().len();
        let mut list = TopicPartitionList::new();
        for partition in 0..open {
            list.add_partition_offset(topic, partition as i32, Offset::Beginning).expect("an offset");
        }
        reader.assign(&list).expect("assigned");
        let deadline = Deadline::after(PATIENCE);
        let mut seen = Vec::new();
        while open > 0 {
            assert!(!deadline.is_over(), "{topic} has no end");
            match reader.poll(deadline.left()) {
                Some(Ok(message)) => seen.push(Seen {
                    partition: message.partition(),
                    offset: message.offset(),
                    key: message.key().unwrap_or_default().to_vec(),
                    value: message.payload().map(<[u8]>::to_vec),
                    timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
                    headers: message.headers().map_or_else(Vec::new, |headers| {
                        headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec())).collect()
                    }),
                }),
                Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
                Some(Err(error)) => panic!("reading {topic}: {error}"),
                None => {}
            }
        }
        seen.sort_by_key(|seen| (seen.partition, seen.offset));
        seen
    }

    /// Values in a topic, as text, in order of the partitions.
    pub(crate) fn values(&self, topic: &str) -> Vec<String> {
        self.read(topic).into_iter().map(|seen| String::from_utf8(seen.value.unwrap_or_default()).expect("text")).collect()
    }
}

/// The group's stable offset of a task.
pub(crate) fn committed(log: &KafkaLog, task: TaskId) -> Option<NextOffset> {
    let mut reader = log.changelog().expect("a reader").expect("there is one");
    reader.committed(task, PATIENCE).expect("an answer")
}

/// Polls until an event about the assignment comes. Records on the way are an error of the test.
pub(crate) fn next_event(log: &mut KafkaLog) -> LogEvent {
    let deadline = Deadline::after(PATIENCE);
    loop {
        assert!(!deadline.is_over(), "no event");
        match log.poll(Duration::from_millis(100), &mut |task, record| panic!("{task} handed over {:?}", record.meta.offset)) {
            Ok(LogEvent::Records(0)) => {}
            Ok(event) => return event,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Answers assignments until so many tasks are held; none is started.
pub(crate) fn join(log: &mut KafkaLog, tasks: usize) -> Vec<TaskId> {
    let mut held = Vec::new();
    while held.len() < tasks {
        match next_event(log) {
            LogEvent::Assigned(new) => {
                log.assign(&new).expect("assigned");
                held.extend(new);
            }
            event => panic!("not an assignment: {event:?}"),
        }
    }
    held.sort_unstable();
    held
}

/// Reads until so many records are there: (task, offset, value).
pub(crate) fn take(log: &mut KafkaLog, count: usize) -> Vec<(TaskId, u64, String)> {
    let deadline = Deadline::after(PATIENCE);
    let mut taken = Vec::new();
    while taken.len() < count {
        assert!(!deadline.is_over(), "only {} of {count} records came", taken.len());
        let event = log
            .poll(Duration::from_millis(100), &mut |task, record| {
                assert!(taken.len() < count, "a record after the handler has stopped");
                let value = String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned();
                taken.push((task, record.meta.offset.0, value));
                if taken.len() < count { Flow::Continue } else { Flow::Stop }
            })
            .expect("a poll");
        assert!(matches!(event, LogEvent::Records(_)), "{event:?}");
    }
    taken
}

/// A commit that must succeed.
pub(crate) fn commit(log: &mut KafkaLog, offsets: &[(TaskId, u64)]) -> BTreeMap<TaskId, u64> {
    match log.commit(&next(offsets)) {
        CommitOutcome::Committed { changelog_next } => changelog_next.into_iter().collect(),
        other => panic!("not committed: {other:?}"),
    }
}

pub(crate) fn next(offsets: &[(TaskId, u64)]) -> Vec<(TaskId, NextOffset)> {
    offsets.iter().map(|(task, offset)| (*task, NextOffset(*offset))).collect()
}

/// A transaction of somebody else.
pub(crate) struct Pending {
    producer: rdkafka::producer::ThreadedProducer<rdkafka::producer::DefaultProducerContext>,
    /// It asked for offsets in the group's name.
    _member: Option<BaseConsumer>,
}

impl Pending {
    pub(crate) fn abort(self) {
        self.end(false);
    }

    /// Whether somebody has its transactional id by now: it must not commit.
    pub(crate) fn is_fenced(&self) -> bool {
        self.producer.commit_transaction(PATIENCE).is_err()
    }

    pub(crate) fn end(self, committed: bool) {
        let ended =
            if committed { self.producer.commit_transaction(PATIENCE) } else { self.producer.abort_transaction(PATIENCE) };
        ended.expect("ended");
    }
}

impl World {
    fn rival(&self, id: &str) -> rdkafka::producer::ThreadedProducer<rdkafka::producer::DefaultProducerContext> {
        // A transaction that a test holds open must not be ended by the broker before the test does so.
        let mut config = self.client();
        config.set("transactional.id", id).set("transaction.timeout.ms", "300000");
        let producer: rdkafka::producer::ThreadedProducer<_> = config.create().expect("a producer");
        producer.init_transactions(PATIENCE).expect("taken over");
        producer
    }

    /// Takes the transactional id of lane 0 away, and lets it go.
    pub(crate) fn fence(&self) {
        drop(self.rival(&self.options.transactional_id()));
    }

    /// Opens a transaction that would move a task's offset, as a member-less client: it is not fenced by the group.
    pub(crate) fn pending(&self, task: TaskId, offset: u64) -> Pending {
        let producer = self.rival(&format!("{}-rival", self.options.app));
        let member: BaseConsumer = self.client().set("group.id", &self.options.app).create().expect("a consumer");
        producer.begin_transaction().expect("begun");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.options.input_topic(task.stage), task.partition as i32, Offset::Offset(offset as i64))
            .expect("an offset");
        producer
            .send_offsets_to_transaction(&list, &member.group_metadata().expect("a group"), PATIENCE)
            .expect("offsets in the transaction");
        Pending { producer, _member: Some(member) }
    }

    /// Opens a transaction with one acknowledged record.
    pub(crate) fn write_open(&self, topic: &str, output: &Output) -> Pending {
        let producer = self.rival(&format!("{}-rival", self.options.app));
        producer.begin_transaction().expect("begun");
        producer
            .send(
                BaseRecord::to(topic)
                    .key(&output.key)
                    .payload(output.value.as_deref().unwrap_or_default())
                    .timestamp(output.timestamp_ms),
            )
            .map_err(|(error, _)| error)
            .expect("queued");
        producer.flush(PATIENCE).expect("acknowledged");
        Pending { producer, _member: None }
    }
}
