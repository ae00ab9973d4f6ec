//! Raw to valid, every problem told with its key, its value and its place.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loopwarden_core::event::EventTime;
use loopwarden_core::limits::{LANES_MAX, POLICY_MS_MAX, RECORD_BYTES_MAX_CEILING};

use crate::diagnostic::{Diagnostic, Origin};
use crate::raw::{RawConfig, RawKafka};
use crate::tree::{Node, Table, Value};
use crate::{
    CommitConfig, Config, DlqContent, EmbeddedConfig, HttpConfig, KafkaConfig, LimitsConfig, LogConfig, LogFormat, OnInputLoss,
    ProcessMode, Start, tree,
};

/// Code of a bad value.
pub(super) const BAD: &str = "E0202";

/// Keys that are paths.
pub(super) const PATHS: [&[&str]; 6] = [
    &["data_dir"],
    &["http", "token_file"],
    &["kafka", "ca_file"],
    &["kafka", "cert_file"],
    &["kafka", "key_file"],
    &["kafka", "password_file"],
];

/// Longest name of an instance or group: with the lane it is a transactional id.
const NAME_MAX: usize = 128;
/// Longest name of a topic, as brokers allow it.
const TOPIC_MAX: usize = 249;
const MIB: i64 = 1024 * 1024;
const GIB: i64 = 1024 * MIB;
const DAY_MS: i64 = 86_400_000;
const MECHANISMS: [&str; 3] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];
/// Directories that other programs clean up.
const TEMPORARY: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/run/user"];

/// Least and greatest value of every number, as the check and the schema have them.
pub(super) const BOUNDS: [(&str, i64, i64); 13] = [
    ("lanes", 0, LANES_MAX as i64),
    ("limits.record_bytes_max", 1024, RECORD_BYTES_MAX_CEILING as i64),
    ("limits.session_cache_bytes", MIB, 1024 * GIB),
    ("limits.block_cache_bytes", MIB, 1024 * GIB),
    ("limits.write_buffer_bytes", MIB, 64 * GIB),
    ("limits.fetch_queue_bytes", MIB, GIB),
    ("commit.commit_ms_min", 0, 5_000),
    ("commit.commit_ms_max", 1, 5_000),
    ("commit.overlay_bytes_max", MIB, GIB),
    ("commit.overlay_records_max", 1, 1_000_000),
    ("time.lateness_ms", 0, DAY_MS),
    ("embedded.partitions", 1, 64),
    ("embedded.retention_ms", 60_000, POLICY_MS_MAX),
];

struct Check<'a> {
    tree: &'a Table,
    told: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn bad(&mut self, key: &str, message: String) {
        let diagnostic = Diagnostic::new(BAD, message);
        self.told.push(match tree::nearest(self.tree, key) {
            Some(node) => diagnostic.at(&node.origin, key),
            None => diagnostic,
        });
    }

    fn integer(&mut self, key: &str, value: i64) -> i64 {
        let (least, most) =
            BOUNDS.iter().find(|(name, ..)| *name == key).map_or((0, i64::MAX), |(_, least, most)| (*least, *most));
        if value < least {
            self.bad(key, format!("{key} is {value}, but must be at least {least}"));
        } else if value > most {
            self.bad(key, format!("{key} is {value}, but must not be above {most}"));
        }
        value.clamp(least, most)
    }

    fn choice<T: Copy + Default>(&mut self, key: &str, text: &str, words: &[(&str, T)]) -> T {
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return *value;
        }
        let list = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        self.bad(key, format!("{key} is {text:?}, but must be one of: {list}"));
        T::default()
    }

    /// Letters, digits, `.`, `_`, `-`: what topics and ids may hold.
    fn name(&mut self, key: &str, name: &str, most: usize) -> String {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if name.is_empty() || name.len() > most || !is_plain || name == "." || name == ".." {
            let shown: String = name.chars().take(64).collect();
            self.bad(key, format!("{key} is {shown:?}, but must be 1 to {most} letters, digits, '.', '_' or '-'"));
        }
        name.to_owned()
    }

    fn path(&mut self, key: &str, path: Option<&String>) -> Option<PathBuf> {
        if path.is_some_and(String::is_empty) {
            self.bad(key, format!("{key} is empty, but must be a path"));
        }
        path.map(PathBuf::from)
    }
}

/// Directories that paths are judged by.
pub(super) struct Places<'a> {
    /// The environment's temporary directory.
    pub(super) temporary: Option<&'a str>,
    /// Where the configuration file lies.
    pub(super) file: Option<&'a Path>,
}

/// The valid configuration; where `told` grows, one that must not be used.
pub(super) fn config(raw: &RawConfig, tree: &Table, places: &Places<'_>, told: &mut Vec<Diagnostic>) -> Config {
    let check = &mut Check { tree, told };
    let lanes = match check.integer("lanes", raw.lanes) {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(LANES_MAX as usize),
        lanes => lanes as usize,
    };
    if raw.instance.is_none() {
        check.bad("instance", "instance is not set, and this host has no name to take instead".to_owned());
    }
    if raw.policy.is_empty() {
        check.bad("policy", "policy is empty, but must be the name of a profile or a file".to_owned());
    }
    let listen = raw.http.listen.parse::<SocketAddr>().unwrap_or_else(|_| {
        check.bad(
            "http.listen",
            format!(
                "http.listen is {:?}, but must be an address and a port, as 127.0.0.1:9464: names are not looked up",
                raw.http.listen
            ),
        );
        SocketAddr::from(([127, 0, 0, 1], 0))
    });
    let commit = &raw.commit;
    let (pause, wait) = (commit.commit_ms_min, commit.commit_ms_max);
    if pause > wait {
        check.bad(
            "commit.commit_ms_min",
            format!("commit.commit_ms_min is {pause}, but must not be above commit_ms_max ({wait})"),
        );
    }
    Config {
        mode: check.choice("mode", &raw.mode, &[("shadow", ProcessMode::Shadow), ("live", ProcessMode::Live)]),
        policy: raw.policy.clone(),
        instance: raw.instance.as_ref().map(|name| check.name("instance", name, NAME_MAX)).unwrap_or_default(),
        lanes: lanes as u32,
        data_dir: data_dir(check, raw.data_dir.as_ref(), places),
        log: LogConfig {
            level: raw.log.level.clone(),
            format: check.choice(
                "log.format",
                &raw.log.format,
                &[("auto", LogFormat::Auto), ("text", LogFormat::Text), ("json", LogFormat::Json)],
            ),
        },
        http: HttpConfig { listen, token_file: check.path("http.token_file", raw.http.token_file.as_ref()) },
        limits: LimitsConfig {
            record_bytes_max: check.integer("limits.record_bytes_max", raw.limits.record_bytes_max) as usize,
            session_cache_bytes: check.integer("limits.session_cache_bytes", raw.limits.session_cache_bytes) as usize,
            block_cache_bytes: check.integer("limits.block_cache_bytes", raw.limits.block_cache_bytes) as usize,
            write_buffer_bytes: check.integer("limits.write_buffer_bytes", raw.limits.write_buffer_bytes) as usize,
            fetch_queue_bytes: check.integer("limits.fetch_queue_bytes", raw.limits.fetch_queue_bytes) as usize,
        },
        commit: CommitConfig {
            commit_ms_min: check.integer("commit.commit_ms_min", pause) as u64,
            commit_ms_max: check.integer("commit.commit_ms_max", wait) as u64,
            overlay_bytes_max: check.integer("commit.overlay_bytes_max", commit.overlay_bytes_max) as usize,
            overlay_records_max: check.integer("commit.overlay_records_max", commit.overlay_records_max) as usize,
        },
        lateness_ms: check.integer("time.lateness_ms", raw.time.lateness_ms),
        embedded: EmbeddedConfig {
            partitions: check.integer("embedded.partitions", raw.embedded.partitions) as u32,
            retention_ms: check.integer("embedded.retention_ms", raw.embedded.retention_ms),
        },
        kafka: kafka(check, &raw.kafka),
    }
}

/// A path relative to the user or to the file lies where they are, also in a scratch directory; whoever writes a temporary directory out
/// forgot that state must outlive a reboot.
fn data_dir(check: &mut Check<'_>, written: Option<&String>, places: &Places<'_>) -> Option<PathBuf> {
    let path = check.path("data_dir", written)?;
    let is_temporary =
        |path: &Path| TEMPORARY.iter().copied().chain(places.temporary).any(|directory| path.starts_with(directory));
    let is_beside_the_file = places.file.is_some_and(|directory| path.starts_with(directory));
    let resolved = path.canonicalize().unwrap_or_else(|_| path.clone());
    if path.is_absolute() && !is_beside_the_file && (is_temporary(&path) || is_temporary(&resolved)) {
        let message = format!(
            "data_dir is {:?}, but must not be a temporary directory: cleaners delete state there",
            path.display().to_string()
        );
        check.bad("data_dir", message);
    }
    Some(path)
}

fn kafka(check: &mut Check<'_>, raw: &RawKafka) -> Option<KafkaConfig> {
    let Some(bootstrap_servers) = &raw.bootstrap_servers else {
        // A forgotten key must not start a second, empty world in embedded mode.
        if let Some(key) = written_key(check.tree) {
            check.bad(&key, format!("kafka.bootstrap_servers is not set, but {key} is"));
        }
        return None;
    };
    for server in bootstrap_servers.split(',') {
        let server = server.trim();
        let is_server = match server.rsplit_once(':') {
            Some((host, port)) => {
                !host.is_empty() && !host.contains(['/', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
            }
            None => false,
        };
        if !is_server {
            let message = format!("kafka.bootstrap_servers holds {server:?}, but must be host:port, separated by commas");
            check.bad("kafka.bootstrap_servers", message);
        }
    }
    let topics = [("input", &raw.input), ("commands", &raw.commands), ("state", &raw.state), ("dlq", &raw.dlq)];
    for (index, (name, topic)) in topics.iter().enumerate() {
        check.name(&format!("kafka.{name}"), topic, TOPIC_MAX);
        if let Some((other, _)) = topics.iter().take(index).find(|(_, other)| other == topic) {
            let key = format!("kafka.{name}");
            check.bad(&key, format!("{key} is {topic:?}, but must not be the topic of kafka.{other}"));
        }
    }
    security(check, raw);
    Some(KafkaConfig {
        bootstrap_servers: bootstrap_servers.split(',').map(str::trim).collect::<Vec<_>>().join(","),
        group: check.name("kafka.group", &raw.group, NAME_MAX),
        start: start(check, &raw.start),
        input: raw.input.clone(),
        commands: raw.commands.clone(),
        state: raw.state.clone(),
        dlq: raw.dlq.clone(),
        dlq_content: check.choice(
            "kafka.dlq_content",
            &raw.dlq_content,
            &[("full", DlqContent::Full), ("hash", DlqContent::Hash), ("none", DlqContent::None)],
        ),
        on_input_loss: check.choice(
            "kafka.on_input_loss",
            &raw.on_input_loss,
            &[("continue", OnInputLoss::Continue), ("stop", OnInputLoss::Stop)],
        ),
        ca_file: check.path("kafka.ca_file", raw.ca_file.as_ref()),
        cert_file: check.path("kafka.cert_file", raw.cert_file.as_ref()),
        key_file: check.path("kafka.key_file", raw.key_file.as_ref()),
        sasl_mechanism: raw.sasl_mechanism.clone(),
        username: raw.username.clone(),
        password_file: check.path("kafka.password_file", raw.password_file.as_ref()),
        librdkafka: raw.librdkafka.clone(),
        consumer_librdkafka: raw.consumer.librdkafka.clone(),
        producer_librdkafka: raw.producer.librdkafka.clone(),
    })
}

fn start(check: &mut Check<'_>, text: &str) -> Start {
    match (text, EventTime::parse_rfc3339(text)) {
        ("earliest", _) => Start::Earliest,
        ("latest", _) => Start::Latest,
        (_, Some(time)) => Start::Time(time.0),
        (_, None) => {
            let message = format!("kafka.start is {text:?}, but must be earliest, latest or a time as 2026-01-31T00:00:00Z");
            check.bad("kafka.start", message);
            Start::default()
        }
    }
}

fn security(check: &mut Check<'_>, raw: &RawKafka) {
    for (key, value, other_key, other) in
        [("cert_file", &raw.cert_file, "key_file", &raw.key_file), ("key_file", &raw.key_file, "cert_file", &raw.cert_file)]
    {
        if value.is_some() && other.is_none() && !raw.librdkafka.contains_key(native_of(other_key)) {
            check.bad(&format!("kafka.{key}"), format!("kafka.{key} is set, but kafka.{other_key} is not"));
        }
    }
    let Some(mechanism) = &raw.sasl_mechanism else {
        for (key, value) in [("username", &raw.username), ("password_file", &raw.password_file)] {
            if value.is_some()
                && !raw.librdkafka.contains_key("sasl.mechanism")
                && !raw.librdkafka.contains_key("sasl.mechanisms")
            {
                check.bad(&format!("kafka.{key}"), format!("kafka.{key} is set, but kafka.sasl_mechanism is not"));
            }
        }
        return;
    };
    if !MECHANISMS.contains(&mechanism.as_str()) {
        let list = MECHANISMS.join(", ");
        check.bad("kafka.sasl_mechanism", format!("kafka.sasl_mechanism is {mechanism:?}, but must be one of: {list}"));
    }
    for (key, value) in [("username", &raw.username), ("password_file", &raw.password_file)] {
        if value.is_none() && !raw.librdkafka.contains_key(native_of(key)) {
            check.bad("kafka.sasl_mechanism", format!("kafka.sasl_mechanism is set, but kafka.{key} is not"));
        }
    }
}

/// librdkafka's own name of one of our security settings.
fn native_of(key: &str) -> &'static str {
    match key {
        "cert_file" => "ssl.certificate.location",
        "key_file" => "ssl.key.location",
        "username" => "sasl.username",
        _ => "sasl.password",
    }
}

/// A key of `[kafka]` that a layer above the defaults wrote.
fn written_key(tree: &Table) -> Option<String> {
    fn find(table: &Table, prefix: &str) -> Option<String> {
        table.iter().find_map(|(key, node)| {
            let path = tree::join(prefix, key);
            match &node.value {
                Value::Table(inner) => find(inner, &path),
                _ => (node.origin != Origin::Default).then_some(path),
            }
        })
    }
    match tree.get("kafka") {
        Some(Node { value: Value::Table(table), .. }) => find(table, "kafka"),
        _ => None,
    }
}
