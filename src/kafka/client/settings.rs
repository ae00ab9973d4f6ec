//! What the Kafka log is told, and the librdkafka settings that follow from it: one table, a reason each.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use loopwarden_core::event::Stage;
pub use loopwarden_settings::{GroupProtocol, Start};
use loopwarden_token::Tokens;
use rdkafka::{ClientConfig, config::RDKafkaLogLevel, error::KafkaError};

/// Names of the topics that people know. The internal ones follow from the application's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicNames {
    /// Events; input of the session stage.
    pub input: String,
    pub commands: String,
    /// Verdicts in force.
    pub state: String,
    pub dead_letters: String,
}

/// A password that does not appear in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// TLS and SASL. Everything else goes through [`NativeSettings`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// PEM file of the authorities that sign the brokers' certificates. Setting it switches TLS on.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client's certificate. Setting it switches TLS on.
    pub cert_file: Option<PathBuf>,
    /// PEM file of the client's key.
    pub key_file: Option<PathBuf>,
    /// As `SCRAM-SHA-512`; with tokens `OAUTHBEARER`. Setting it switches SASL on.
    pub sasl_mechanism: Option<String>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// Instead of user and password.
    pub tokens: Option<Tokens>,
}

/// librdkafka settings as a user wrote them, applied last. What exactly-once owns was refused by the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeSettings {
    /// For every client.
    pub all: BTreeMap<String, String>,
    /// For consumers, above `all`.
    pub consumer: BTreeMap<String, String>,
    /// For producers, above `all`.
    pub producer: BTreeMap<String, String>,
}

/// Everything a lane's Kafka log needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaOptions {
    /// `host:port`, separated by commas.
    pub bootstrap_servers: String,
    /// Group id; names internal topics and transactions.
    pub app: String,
    /// Name of this process: unique and stable (rule B7).
    pub instance: String,
    /// Number of the lane in the process.
    pub lane: u32,
    /// Stages whose inputs the lane reads. The assignor balances a member's partitions over all it subscribes to, so that a lane of
    /// both may come to have all events of a group and another one none: each lane of a process reads one.
    pub reads: &'static [Stage],
    pub topics: TopicNames,
    /// How the group shares out partitions.
    pub group_protocol: GroupProtocol,
    /// Where a new group begins.
    pub start: Start,
    pub security: Security,
    pub native: NativeSettings,
    /// Bytes of fetched records this lane may hold.
    pub fetch_bytes_max: usize,
    /// Whether the swarm stage runs in this group.
    pub swarm: bool,
    /// Largest value that is still decoded; goes into every record's meta. Bytes.
    pub value_bytes_max: usize,
    /// Topic of events that foreign records are written to: then `topics.input` is foreign, and only dead letters are written besides.
    pub rekeyed_to: Option<String>,
}

impl KafkaOptions {
    /// The same for the intake of a foreign topic. It has a group of its own, since it keeps no state that must fit to one: topics come
    /// and go without a rebalance of the lanes.
    #[must_use]
    pub fn of_intake(&self, topic: &str) -> Self {
        Self {
            app: format!("{}-in-{topic}", self.app),
            lane: 0,
            reads: &[Stage::Session],
            topics: TopicNames { input: topic.to_owned(), ..self.topics.clone() },
            swarm: false,
            rekeyed_to: Some(self.topics.input.clone()),
            ..self.clone()
        }
    }

    /// The same for a webhook, which reads commands. Its group is its own: it keeps no state, and may be slow.
    #[must_use]
    pub fn of_webhook(&self, name: &str) -> Self {
        let app = format!("{}-webhook-{name}", self.app);
        Self { app, lane: 0, swarm: false, fetch_bytes_max: WEBHOOK_FETCH_BYTES_MAX, ..self.clone() }
    }

    /// `{app}-{instance}-{lane}`: stable, so that a restart finishes its own leftover.
    pub fn transactional_id(&self) -> String {
        format!("{}-{}", self.app, self.group_instance_id())
    }

    /// `{instance}-{lane}`, and `{instance}-swarm` for the lane that reads sums alone: a restart within the session timeout moves
    /// nothing, with another number of lanes neither.
    pub fn group_instance_id(&self) -> String {
        match self.reads {
            [Stage::Swarm] => format!("{}-swarm", self.instance),
            _ => format!("{}-{}", self.instance, self.lane),
        }
    }

    /// The topic a stage reads.
    pub fn input_topic(&self, stage: Stage) -> String {
        match stage {
            Stage::Session => self.topics.input.clone(),
            Stage::Swarm => format!("{}.swarm-counts", self.app),
        }
    }

    /// The topic that holds a stage's state.
    pub fn changelog_topic(&self, stage: Stage) -> String {
        format!("{}.{}-changelog", self.app, stage.as_str())
    }

    /// The stages this group runs.
    pub fn stages(&self) -> &'static [Stage] {
        if self.swarm { &[Stage::Session, Stage::Swarm] } else { &[Stage::Session] }
    }
}

/// One librdkafka setting this program chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// librdkafka's name.
    pub key: &'static str,
    pub value: &'static str,
    /// Why not the default.
    pub why: &'static str,
}

const fn set(key: &'static str, value: &'static str, why: &'static str) -> Setting {
    Setting { key, value, why }
}

pub const EVERY_CLIENT: &[Setting] = &[
    set("allow.auto.create.topics", "false", "a typing error must not make a topic"),
    set("socket.timeout.ms", "10000", "a silent broker is noticed within a transaction"),
    set("topic.metadata.refresh.interval.ms", "60000", "notice grown topics"),
    set("reconnect.backoff.max.ms", "500", "by default 10000: deaf for so long after a broker is back"),
    set("socket.nagle.disable", "true", "a commit is many small requests in a row: none must wait for the answer to another"),
    set("client.software.name", "loopwarden", "brokers can count who connects"),
];

/// For every consumer, of a lane as of a restore.
pub const EVERY_CONSUMER: &[Setting] = &[
    set("enable.auto.commit", "false", "offsets move in the transaction only"),
    set("enable.auto.offset.store", "false", "offsets move in the transaction only"),
    set("isolation.level", "read_committed", "inputs may be transactional; also selects stable offsets"),
    set("auto.offset.reset", "error", "losing input is a decision (rule I12)"),
    set("check.crcs", "true", "the default trusts the network"),
    set("fetch.wait.max.ms", "100", "idle cost only: data is answered at once"),
    set("fetch.queue.backoff.ms", "2", "the default of 1000 throttles a partition to about queued.min.messages a second"),
    set("fetch.message.max.bytes", "4194304", "fewer, larger fetches"),
    set("fetch.max.bytes", "67108864", "fewer, larger fetches"),
    set("queued.min.messages", "100000", "prefetch; the byte budget bounds it"),
];

pub const LANE_CONSUMER: &[Setting] = &[
    set("max.poll.interval.ms", "60000", "above the lane's deadlines (27 s) and the watchdog's (30 s)"),
    set("statistics.interval.ms", "2000", "ends of the partitions, and soon whether a broker answers"),
];

/// For the consumer of a lane under the classic protocol. Under the other one these are the broker's.
pub const CLASSIC: &[Setting] = &[
    set("partition.assignment.strategy", "cooperative-sticky", "alone: mixing with eager fails at run time"),
    set("session.timeout.ms", "6000", "most of a take-over is this wait; brokers refuse less by default"),
    set("heartbeat.interval.ms", "1000", "members hear by it that one came back: who restarts waits for the slowest"),
];

/// For readers of changelogs and of fixed ranges.
pub const READER: &[Setting] = &[
    set("enable.partition.eof", "true", "a changelog ends at the EOF event, never at an offset (rule R4)"),
    set("fetch.wait.max.ms", "10", "that event follows an empty answer, and a restore waits for it"),
];

/// For a reader that stays and is polled: statistics wait for a poll, and would pile up in one that is not.
pub const WATCHED: &[Setting] = &[set("statistics.interval.ms", "5000", "whether each partition is still read")];

/// For the consumer of a webhook, above what a user sets.
pub const WEBHOOK: &[Setting] = &[
    set("auto.offset.reset", "earliest", "what is new to the group is a partition that was added"),
    set("max.poll.interval.ms", "300000", "above the longest request (60 s)"),
    set("queued.min.messages", "100", "commands are few, and sent one by one"),
];

/// Bytes of fetched commands that a webhook may hold.
const WEBHOOK_FETCH_BYTES_MAX: usize = 1024 * 1024;

/// For the producer of a lane. `acks=all` and idempotence follow from the transactional id.
pub const PRODUCER: &[Setting] = &[
    set("transaction.timeout.ms", "10000", "how long a dead lane stalls readers"),
    set("message.timeout.ms", "6000", "must not be above the transaction's"),
    set("retry.backoff.ms", "5", "the previous transaction's completion is awaited in this step"),
    set("linger.ms", "0", "the whole batch is sent in one burst and awaited"),
    set("compression.type", "lz4", "cheap; the default is none"),
    set("queue.buffering.max.messages", "0", "no full queue: the overlay is the limit"),
    set("sticky.partitioning.linger.ms", "0", "no wait for records without key"),
    set("partitioner", "murmur2_random", "as Java's; librdkafka's own is CRC32"),
];

/// For a writer outside of any lane.
pub const WRITER: &[Setting] = &[
    set("enable.idempotence", "true", "each record once and in order"),
    set("compression.type", "lz4", "cheap; the default is none"),
    set("partitioner", "murmur2_random", "as Java's; librdkafka's own is CRC32"),
];

/// For a producer that finds out whether it might write.
pub const WRITE_PROBE: &[Setting] = &[
    set("acks", "2", "brokers refuse that number, but only after they have looked at the permission"),
    set("retries", "0", "the first answer counts"),
    set("linger.ms", "0", "somebody waits"),
    set("message.timeout.ms", "10000", "somebody waits"),
];

/// For the events of a guard, above [`WRITER`].
pub const FORWARDER: &[Setting] = &[
    set("linger.ms", "20", "many events are one request; no agent waits for it"),
    set("message.timeout.ms", "60000", "an event of a minute ago is news to no detector"),
    set("queue.buffering.max.messages", "20000", "beside an agent memory is scarce"),
    set("queue.buffering.max.kbytes", "32768", "beside an agent memory is scarce"),
];

fn apply(config: &mut ClientConfig, settings: &[Setting]) {
    for setting in settings {
        config.set(setting.key, setting.value);
    }
}

fn base(options: &KafkaOptions, client: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &options.bootstrap_servers);
    config.set("client.id", format!("{}-{client}", options.transactional_id()));
    apply(&mut config, EVERY_CLIENT);
    let security = &options.security;
    let tls = security.ca_file.is_some() || security.cert_file.is_some() || security.key_file.is_some();
    match (security.sasl_mechanism.is_some(), tls) {
        (true, true) => config.set("security.protocol", "sasl_ssl"),
        (true, false) => config.set("security.protocol", "sasl_plaintext"),
        (false, true) => config.set("security.protocol", "ssl"),
        (false, false) => &mut config,
    };
    for (key, file) in [
        ("ssl.ca.location", &security.ca_file),
        ("ssl.certificate.location", &security.cert_file),
        ("ssl.key.location", &security.key_file),
    ] {
        if let Some(file) = file {
            config.set(key, file.to_string_lossy());
        }
    }
    for (key, value) in [("sasl.mechanism", &security.sasl_mechanism), ("sasl.username", &security.username)] {
        if let Some(value) = value {
            config.set(key, value);
        }
    }
    if let Some(Secret(password)) = &security.password {
        config.set("sasl.password", password);
    }
    config
}

fn verbatim(config: &mut ClientConfig, maps: &[&BTreeMap<String, String>]) {
    for (key, value) in maps.iter().copied().flatten() {
        config.set(key, value);
    }
    // The wrapper would take its level from another logging crate, which nobody sets up here: then no line would come. A lane's
    // producer reads some of them (rule C17).
    config.set_log_level(if config.get("debug").is_some() { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
}

fn consumer(options: &KafkaOptions, client: &str, own: &[Setting]) -> ClientConfig {
    let mut config = base(options, client);
    apply(&mut config, EVERY_CONSUMER);
    apply(&mut config, own);
    config.set("group.protocol", options.group_protocol.as_str());
    if options.group_protocol == GroupProtocol::Classic {
        apply(&mut config, CLASSIC);
    }
    config.set("group.id", &options.app);
    config.set("queued.max.messages.kbytes", (options.fetch_bytes_max / 1024).clamp(1, 2_097_151).to_string());
    verbatim(&mut config, &[&options.native.all, &options.native.consumer]);
    config
}

/// Last part of the client id of a lane's consumer.
const LANE_CLIENT: &str = "consumer";

/// Configuration of a lane's consumer.
pub(crate) fn lane_consumer(options: &KafkaOptions) -> ClientConfig {
    let mut config = consumer(options, LANE_CLIENT, LANE_CONSUMER);
    config.set("group.instance.id", options.group_instance_id());
    config
}

/// Configuration of a webhook's consumer. It has no static name: who died is missed after the session, and nobody has to wait for it.
pub(crate) fn webhook_consumer(options: &KafkaOptions) -> ClientConfig {
    let mut config = consumer(options, "commands", &[]);
    apply(&mut config, WATCHED);
    apply(&mut config, WEBHOOK);
    config
}

/// What the group knows a lane's consumer by, whichever process it is in.
pub(crate) fn member_client_id(options: &KafkaOptions) -> String {
    client_id_of(&options.transactional_id())
}

/// The same, of the lane with a transactional id.
pub(crate) fn client_id_of(transactional_id: &str) -> String {
    format!("{transactional_id}-{LANE_CLIENT}")
}

/// How long the group waits for word of a lane before it lets go of its place.
pub(crate) fn session_timeout(options: &KafkaOptions) -> Duration {
    let set = lane_consumer(options).get("session.timeout.ms").and_then(|value| value.parse().ok());
    Duration::from_millis(set.unwrap_or_default())
}

/// The same of a reader that stays.
pub(crate) fn watched_reader(options: &KafkaOptions, client: &str) -> ClientConfig {
    let mut config = reader(options, client);
    apply(&mut config, WATCHED);
    config
}

/// Configuration of a reader that only assigns: it has the group's id to ask for its offsets, and never joins it.
pub(crate) fn reader(options: &KafkaOptions, client: &str) -> ClientConfig {
    consumer(options, client, READER)
}

/// The same, but it sees the ends of partitions where records lie that are not committed, or not yet.
pub(crate) fn uncommitted_reader(options: &KafkaOptions) -> ClientConfig {
    let mut config = reader(options, "ends");
    config.set("isolation.level", "read_uncommitted");
    config
}

/// Configuration of a lane's producer.
pub(crate) fn producer(options: &KafkaOptions) -> ClientConfig {
    let mut config = base(options, "producer");
    apply(&mut config, PRODUCER);
    config.set("transactional.id", options.transactional_id());
    verbatim(&mut config, &[&options.native.all, &options.native.producer]);
    config
}

/// Configuration of a producer that takes over another lane's transactional id, to end what that lane left open.
pub(crate) fn successor(options: &KafkaOptions, transactional_id: &str) -> ClientConfig {
    let mut config = producer(options);
    config.set("transactional.id", transactional_id);
    config
}

/// Configuration of a writer outside of any lane.
pub(crate) fn writer(options: &KafkaOptions) -> ClientConfig {
    let mut config = base(options, "writer");
    apply(&mut config, WRITER);
    verbatim(&mut config, &[&options.native.all, &options.native.producer]);
    config
}

/// Configuration of the producer of a guard.
pub(crate) fn forwarder(options: &KafkaOptions) -> ClientConfig {
    let mut config = base(options, "guard-events");
    apply(&mut config, WRITER);
    apply(&mut config, FORWARDER);
    verbatim(&mut config, &[&options.native.all, &options.native.producer]);
    config
}

/// Configuration of a producer that writes nothing.
pub(crate) fn write_probe(options: &KafkaOptions) -> ClientConfig {
    let mut config = base(options, "permissions-writes");
    verbatim(&mut config, &[&options.native.all, &options.native.producer]);
    // Last: another number of acknowledgements would write.
    apply(&mut config, WRITE_PROBE);
    config
}

/// Configuration of a client that only administers.
pub(crate) fn admin(options: &KafkaOptions) -> ClientConfig {
    let mut config = base(options, "admin");
    verbatim(&mut config, &[&options.native.all]);
    config
}

/// A librdkafka setting that does not exist or has a value it cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("librdkafka setting \"{key}\": {message}")]
pub struct BadSetting {
    pub key: String,
    /// What librdkafka says of it.
    pub message: String,
}

/// Builds every client's native configuration without connecting, so that a typing error is named before anything starts.
///
/// # Errors
/// The first setting librdkafka refuses.
pub fn check(options: &KafkaOptions) -> Result<(), BadSetting> {
    let consumer = lane_consumer(options);
    if options.group_protocol == GroupProtocol::Consumer
        && let Some(owned) = CLASSIC.iter().find(|setting| consumer.get(setting.key).is_some())
    {
        let message = "is the broker's under kafka.group_protocol = \"consumer\": see group.consumer.* of the broker".to_owned();
        return Err(BadSetting { key: owned.key.to_owned(), message });
    }
    for config in [
        consumer,
        webhook_consumer(options),
        reader(options, "reader"),
        producer(options),
        writer(options),
        write_probe(options),
        admin(options),
    ] {
        config.create_native_config().map_err(|error| match error {
            KafkaError::ClientConfig(_, message, key, _) => BadSetting { key, message },
            other => BadSetting { key: String::new(), message: other.to_string() },
        })?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
