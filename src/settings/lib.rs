//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! `Config` stops at `cli`; the rest of the program is handed plain values.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

mod diagnostic;
mod explain;
mod file;
mod load;
mod native;
pub mod policy;
pub mod raw;
pub mod schema;
mod shape;
mod suggest;
mod tree;
mod validate;

pub use diagnostic::{Diagnostic, Diagnostics, Origin};
pub use explain::{PAGES, Page, explain};
pub use load::{DEFAULT_TOML, Flag, Layers, Loaded, load};
pub use suggest::closest;
pub use tree::Effective;

/// A complete, valid configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether commands are meant to be obeyed.
    pub mode: ProcessMode,
    /// Name of a shipped profile, or path of a policy file.
    pub policy: String,
    /// Stable, unique name of this process: letters, digits, `.`, `_`, `-`.
    pub instance: String,
    /// Number of lanes, at least 1.
    pub lanes: u32,
    /// Where state lives. Only commands that run need it: [`Config::data_dir`].
    pub data_dir: Option<PathBuf>,
    /// Log lines.
    pub log: LogConfig,
    /// The listener.
    pub http: HttpConfig,
    /// Sizes.
    pub limits: LimitsConfig,
    /// When a lane commits.
    pub commit: CommitConfig,
    /// How far event times of one partition may lie apart before timers fire. Milliseconds.
    pub lateness_ms: i64,
    /// The embedded log; used where `kafka` is `None`.
    pub embedded: EmbeddedConfig,
    /// Kafka; `None` is embedded mode.
    pub kafka: Option<KafkaConfig>,
}

impl Config {
    /// The directory of the state.
    ///
    /// # Errors
    /// E0202 where no layer named one.
    pub fn data_dir(&self) -> Result<&Path, Diagnostic> {
        self.data_dir.as_deref().ok_or_else(|| {
            Diagnostic::new("E0202", "data_dir is not set, but state needs a place on local disk")
                .help("set `data_dir` in the configuration, LOOPWARDEN_DATA_DIR, or --set data_dir=…")
        })
    }

    /// Name of the application: the consumer group; in embedded mode `loopwarden`.
    #[must_use]
    pub fn app(&self) -> &str {
        self.kafka.as_ref().map_or("loopwarden", |kafka| kafka.group.as_str())
    }
}

/// Whether commands are meant to be obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProcessMode {
    /// Commands are published as shadow.
    #[default]
    Shadow,
    /// Commands count.
    Live,
}

impl ProcessMode {
    /// The name in configuration and commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shadow => "shadow",
            Self::Live => "live",
        }
    }
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// Filter directives.
    pub level: String,
    /// How lines look.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// `[http]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// File with the bearer token.
    pub token_file: Option<PathBuf>,
}

impl HttpConfig {
    /// The bearer token, if there is one.
    ///
    /// # Errors
    /// As [`read_secret`].
    pub fn token(&self) -> Result<Option<String>, Diagnostic> {
        self.token_file.as_ref().map(|file| read_secret(file, "http.token_file")).transpose()
    }
}

/// `[limits]`. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsConfig {
    /// Largest record that is decoded.
    pub record_bytes_max: usize,
    /// Decoded sessions of the process.
    pub session_cache_bytes: usize,
    /// Block cache of the store.
    pub block_cache_bytes: usize,
    /// Write buffers of the store.
    pub write_buffer_bytes: usize,
    /// Fetched ahead, per lane.
    pub fetch_queue_bytes: usize,
}

/// `[commit]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitConfig {
    /// Shortest pause between commits. Milliseconds.
    pub commit_ms_min: u64,
    /// Longest wait of an uncommitted record. Milliseconds.
    pub commit_ms_max: u64,
    /// Uncommitted changes of a lane that force a commit. Bytes.
    pub overlay_bytes_max: usize,
    /// Uncommitted records of a lane that do.
    pub overlay_records_max: usize,
}

/// `[embedded]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedConfig {
    /// Partitions of each stage, fixed when the directory is created.
    pub partitions: u32,
    /// How long events and commands are kept. Milliseconds.
    pub retention_ms: i64,
}

/// Where a group without offsets begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the oldest record.
    #[default]
    Earliest,
    /// With the next record.
    Latest,
    /// With the first record not before this, Unix ms.
    Time(i64),
}

/// What a dead letter has of the record's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DlqContent {
    /// All of it, as far as it fits.
    #[default]
    Full,
    /// Its SHA-256.
    Hash,
    /// Nothing.
    None,
}

/// What to do when input was deleted before it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnInputLoss {
    /// Count it, go on at the start.
    #[default]
    Continue,
    /// Stop the task.
    Stop,
}

/// `[kafka]`.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port`, separated by commas.
    pub bootstrap_servers: String,
    /// Consumer group; names internal topics and transactions.
    pub group: String,
    /// Where a group without offsets begins.
    pub start: Start,
    /// Topic of events.
    pub input: String,
    /// Topic of commands.
    pub commands: String,
    /// Topic of verdicts in force.
    pub state: String,
    /// Topic of dead letters.
    pub dlq: String,
    /// What a dead letter has of the record's value.
    pub dlq_content: DlqContent,
    /// What to do about lost input.
    pub on_input_loss: OnInputLoss,
    /// PEM file of authorities.
    pub ca_file: Option<PathBuf>,
    /// PEM file of the client's certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// SASL mechanism.
    pub sasl_mechanism: Option<String>,
    /// SASL user.
    pub username: Option<String>,
    /// File with the SASL password; [`read_secret`] reads it.
    pub password_file: Option<PathBuf>,
    /// Verbatim librdkafka settings for every client. Known names, none that is owned.
    pub librdkafka: BTreeMap<String, String>,
    /// The same for consumers.
    pub consumer_librdkafka: BTreeMap<String, String>,
    /// The same for producers.
    pub producer_librdkafka: BTreeMap<String, String>,
}

impl std::fmt::Debug for KafkaConfig {
    /// Without the librdkafka tables, which may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

/// The secret in a file: its text without the line end after it.
///
/// # Errors
/// E0202 where the file cannot be read, is too large or empty.
pub fn read_secret(path: &Path, key: &str) -> Result<String, Diagnostic> {
    let text =
        file::read(path, validate::BAD).map_err(|error| Diagnostic { message: format!("{key}: {}", error.message), ..error })?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.is_empty() {
        return Err(Diagnostic::new(validate::BAD, format!("{key} names {}, which is empty", path.display())));
    }
    Ok(secret.to_owned())
}
