//! The configuration of a process: every setting, once. To add one, add its field.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loopwarden_core::event::EventTime;
use loopwarden_core::limits::{LANES_MAX, POLICY_MS_MAX, RECORD_BYTES_MAX_CEILING};

use crate::describe::entry::{Form, Leaf, Verbatim, range, settings, text, text_of, words};
use crate::messages::diagnostic::{BAD, Diagnostic};
use crate::process::rules::{issuer, listed, plain_name, proxy, public};
use crate::{layers::file, layers::tree::Value, process::token, process::token::TokenConfig, process::webhook::WebhookConfig};

/// Longest name of an instance or group: with the lane it is a transactional id.
const NAME_MAX: usize = 128;
/// Longest name of a topic, as brokers allow it.
const TOPIC_MAX: usize = 249;
const MIB: i64 = 1024 * 1024;
const GIB: i64 = 1024 * MIB;
const DAY_MS: i64 = 86_400_000;

settings! {
    /// A complete, valid configuration.
    pub struct Config {
        /// shadow decides and publishes commands that workers do not obey; live must be said
        mode: ProcessMode = "shadow";
        /// name of a shipped profile, or a policy file; read again at SIGHUP
        policy: String = "default" where text(policy_name);
        /// stable, unique name of this process (letters, digits, . _ -); default: the host name
        instance: String as "lw-0" where text(plain_name::<NAME_MAX>);
        /// threads that consume and decide, at most 256; 0 = one per core; with Kafka one more adds up swarms
        lanes: u32 = 0 where range(0..=i64::from(LANES_MAX));
        /// state on local disk; no default; an absolute path below /tmp is refused: cleaners delete files there
        data_dir: Option<PathBuf> as "/var/lib/loopwarden";
        /// Log lines.
        log: LogConfig;
        /// The listener.
        http: HttpConfig;
        /// Who may reach the listener, and for what: a table for each token, in a file only.
        token: Vec<TokenConfig>;
        /// Sizes.
        limits: LimitsConfig;
        /// When a lane commits.
        commit: CommitConfig;
        /// Event time.
        time: TimeConfig;
        /// Embedded mode: without kafka.bootstrap_servers events come in over HTTP and everything stays in data_dir.
        embedded: EmbeddedConfig;
        /// Kafka mode: begins with the key bootstrap_servers.
        kafka: Option<KafkaConfig>;
        /// Other topics, beside kafka.input: their records become events of kafka.input. A table for each, in a file only.
        input: Vec<InputConfig>;
        /// Where commands are posted, besides. A table for each, in a file only.
        webhook: Vec<WebhookConfig>;
    }

    /// `[[input]]`.
    pub struct InputConfig {
        /// topic; its name is part of a consumer group and of transactions
        topic: String as "otlp_spans" where text(plain_name::<TOPIC_MAX>);
        /// what its records are; native: events that have another key than their session
        form: InputForm = "native";
        /// what OpenTelemetry records hold; only for otlp_proto and otlp_json
        signal: OtlpSignal = "traces";
        /// mapping (TOML, loopwarden map): json needs one, cloudevents may have one
        mapping: Option<PathBuf> as "/etc/loopwarden/map.toml";
        /// what its records may be: source reports what agents do, operator resets, or both, separated by a comma
        roles: String = "source" where text(token::sender_roles);
        /// events of these tenants only, separated by commas; empty: of none; without: of all of them
        tenants: Option<String> as "acme" where text(token::tenants);
    }

    /// `[log]`.
    pub struct LogConfig {
        /// filter of log lines, as in RUST_LOG; read again at SIGHUP. LOOPWARDEN_LOG sets it too
        level: String = "info";
        /// auto is text on a terminal and JSON otherwise
        format: LogFormat = "auto";
    }

    /// `[http]`.
    pub struct HttpConfig {
        /// address and port of metrics, health and administration; loopback, since those show session ids
        listen: SocketAddr = "127.0.0.1:9464";
        /// file with a bearer token for everything and every tenant; tables `token` have some for less
        token_file: Option<PathBuf> as "/run/secrets/loopwarden-token";
        /// who on this host needs no token: programs of the user that loopwarden runs as, and root; nobody; or any user
        local: LocalClients = "own_user";
        /// mapping (TOML, loopwarden map) of what POST /v1/events gets and is no native event; without: that is refused
        mapping: Option<PathBuf> as "/etc/loopwarden/map.toml";
        /// where browsers reach this process, with https, for links by which people answer messages of webhooks; needs link_secret_file
        public_url: Option<String> as "https://loopwarden.example.com" where text(public);
        /// file with the secret that signs these links, 32 characters at least, the same for all processes; another one ends every link
        link_secret_file: Option<PathBuf> as "/run/secrets/link-secret";
        /// ms that a link holds: a day, at most seven
        link_ms_max: i64 = 86_400_000 where range(60_000..=7 * DAY_MS);
        /// ms; events for lanes that are further behind are refused (429); 0 = never; only without Kafka
        intake_lag_ms_max: u64 = 10_000 where range(0..=3_600_000);
        /// ms for which events of all senders together may wait to be judged; each has a share of it; 0 = no shares; only without Kafka
        intake_share_ms_max: u64 = 1_000 where range(0..=60_000);
        /// ms; a process that is further behind is not ready; 0 = it only says so
        ready_lag_ms_max: u64 = 0 where range(0..=3_600_000);
    }

    /// `[limits]`.
    pub struct LimitsConfig {
        /// bytes, 1 KiB to 1 MiB; larger events are dead letters: a tool event is text cut by its producer
        record_bytes_max: usize = 262_144 where range(1024..=RECORD_BYTES_MAX_CEILING as i64);
        /// bytes of decoded sessions of the whole process; more hits, fewer reads of the store
        session_cache_bytes: usize = 268_435_456 where range(MIB..=1024 * GIB);
        /// bytes of the store's block cache, shared by all lanes
        block_cache_bytes: usize = 268_435_456 where range(MIB..=1024 * GIB);
        /// bytes of the store's write buffers, all lanes together
        write_buffer_bytes: usize = 134_217_728 where range(MIB..=64 * GIB);
        /// bytes fetched ahead per lane; bounds memory when a backlog is read; in a restore three times as much
        fetch_queue_bytes: usize = 67_108_864 where range(MIB..=GIB);
    }

    /// `[commit]`.
    pub struct CommitConfig {
        /// ms between two commits at least: a transaction costs the brokers several writes
        commit_ms_min: u64 = 2 where range(0..=5_000);
        /// ms from the first uncommitted record to its commit at most, up to 5,000; bounds a command's delay
        commit_ms_max: u64 = 100 where range(1..=5_000);
        /// bytes of uncommitted changes per lane that force a commit, 1 MiB to 1 GiB
        overlay_bytes_max: usize = 33_554_432 where range(MIB..=GIB);
        /// records that do, up to 1,000,000: bounds what is done again after an abort
        overlay_records_max: u64 = 50_000 where range(1..=1_000_000);
    }

    /// `[time]`.
    pub struct TimeConfig {
        /// ms; how far event times of one partition may lie apart before timers fire, up to a day
        lateness_ms: i64 = 60_000 where range(0..=DAY_MS);
    }

    /// `[embedded]`.
    pub struct EmbeddedConfig {
        /// 1 to 64, fixed when data_dir is created: it decides where a session lives
        partitions: u32 = 4 where range(1..=64);
        /// ms that events and commands are kept: 7 days, at least a minute; less beyond 6 GiB of events, 2 GiB of commands
        retention_ms: i64 = 604_800_000 where range(60_000..=POLICY_MS_MAX);
    }

    /// `[kafka]`.
    pub struct KafkaConfig {
        /// host:port, separated by commas
        bootstrap_servers: String as "localhost:9092" where text(servers);
        /// consumer group; also names internal topics and transactions, so it is never changed
        group: String = "loopwarden" where text(plain_name::<NAME_MAX>);
        /// how the group shares out partitions; consumer is that of Kafka 4.0 on (KIP-848), see operations.md
        group_protocol: GroupProtocol = "classic";
        /// where a group without offsets begins
        start: Start = "earliest";
        /// topic of events
        input: String = "agents.tool-events.v1" where text(plain_name::<TOPIC_MAX>);
        /// topic of commands
        commands: String = "agents.loop-commands.v1" where text(plain_name::<TOPIC_MAX>);
        /// topic of verdicts in force, compacted
        state: String = "agents.loop-state.v1" where text(plain_name::<TOPIC_MAX>);
        /// topic of dead letters
        dlq: String = "agents.loop-dlq.v1" where text(plain_name::<TOPIC_MAX>);
        /// what a dead letter has of the record's value; hash is its SHA-256
        dlq_content: DeadLetterContent = "full";
        /// what to do when input was deleted before it was read; continue counts it and goes on
        on_input_loss: OnInputLoss = "continue";
        /// PEM, authorities of the brokers' certificates; switches TLS on; see authentication.md for certificates the system knows
        ca_file: Option<PathBuf> as "/etc/loopwarden/ca.pem";
        /// PEM, certificate of this client; needs key_file
        cert_file: Option<PathBuf> as "/etc/loopwarden/cert.pem";
        /// PEM, its key
        key_file: Option<PathBuf> as "/etc/loopwarden/key.pem";
        /// ; switches SASL on; the first three need username and password_file, OAUTHBEARER needs [kafka.oauth], AWS_MSK_IAM AWS's variables
        sasl_mechanism: Option<SaslMechanism> as "SCRAM-SHA-512";
        /// region of the cluster, for AWS_MSK_IAM; default: AWS_REGION, else AWS_DEFAULT_REGION
        aws_region: Option<String> as "eu-west-1" where text(plain_name::<64>);
        /// proxy for questions to the issuer or to AWS (http://HOST:PORT), or environment: HTTPS_PROXY and NO_PROXY count; without: none
        token_proxy: Option<String> as "http://proxy.example.com:3128" where text(proxy);
        /// SASL user name
        username: Option<String> as "loopwarden";
        /// file with the SASL password; a line end after it is dropped
        password_file: Option<PathBuf> as "/run/secrets/kafka-password";
        /// Tokens for OAUTHBEARER: from an issuer (token_url, client_id, client_secret_file), or from token_file.
        oauth: OauthConfig;
        /// any other librdkafka setting, verbatim, applied last, for every client; what exactly-once owns is refused
        librdkafka: Verbatim;
        /// for consumers, above those for every client
        consumer: ClientConfig;
        /// for producers, likewise
        producer: ClientConfig;
    }

    /// `[kafka.oauth]`.
    pub struct OauthConfig {
        /// token endpoint of the issuer, asked with client credentials; https, or http on this host
        token_url: Option<String> as "https://issuer.example.com/oauth2/token" where text(issuer);
        /// name of this client at the issuer
        client_id: Option<String> as "loopwarden";
        /// file with its secret; read again for each token
        client_secret_file: Option<PathBuf> as "/run/secrets/oauth-client-secret";
        /// scopes to ask for, separated by spaces
        scope: Option<String> as "kafka";
        /// PEM, authorities of the issuer's certificate; without: those that the system knows
        ca_file: Option<PathBuf> as "/etc/loopwarden/issuer-ca.pem";
        /// file with a token (JWT) that something else renews, as Kubernetes does; read again every 2 s
        token_file: Option<PathBuf> as "/var/run/secrets/tokens/kafka";
    }

    /// `[kafka.consumer]`, `[kafka.producer]`.
    pub struct ClientConfig {
        /// librdkafka settings
        librdkafka: Verbatim;
    }
}

words! {
    /// Whether commands are meant to be obeyed.
    pub enum ProcessMode {
        /// They are published, and bind nobody.
        Shadow = "shadow",
        /// They bind.
        Live = "live",
    }
    besides {
        /// They belong to a report.
        Replay = "replay",
    }
}

words! {
    /// Who on this host needs no token.
    pub enum LocalClients {
        /// Programs of the user that the process runs as, and of root.
        OwnUser = "own_user",
        /// Nobody.
        Token = "token",
        /// Programs of every user of this host, and of every container that shares its network.
        AnyUser = "any_user",
    }
}

words! {
    /// How log lines look.
    pub enum LogFormat {
        /// Text on a terminal, JSON otherwise.
        Auto = "auto",
        /// For people.
        Text = "text",
        /// For machines.
        Json = "json",
    }
}

words! {
    /// What the records of a topic are.
    pub enum InputForm {
        /// Events.
        Native = "native",
        /// JSON that a mapping reads.
        Json = "json",
        /// CloudEvents, structured or binary.
        CloudEvents = "cloudevents",
        /// OpenTelemetry in protobuf.
        OtlpProto = "otlp_proto",
        /// OpenTelemetry in JSON.
        OtlpJson = "otlp_json",
    }
}

words! {
    /// What a topic of OpenTelemetry holds.
    pub enum OtlpSignal {
        /// Spans.
        Traces = "traces",
        /// Log records.
        Logs = "logs",
    }
}

words! {
    /// What a dead letter has of the record's value.
    pub enum DeadLetterContent {
        /// Its bytes, as far as they fit.
        Full = "full",
        /// Its SHA-256 in hex.
        Hash = "hash",
        /// Nothing.
        None = "none",
    }
}

words! {
    /// How the members of a group share out partitions.
    pub enum GroupProtocol {
        /// One of them does it, and all of them hear of it.
        Classic = "classic",
        /// The brokers do it (KIP-848).
        Consumer = "consumer",
    }
}

words! {
    /// What happens when the input no longer holds the next record.
    pub enum OnInputLoss {
        /// Go on at the input's start, loudly.
        Continue = "continue",
        /// Stop the process.
        Stop = "stop",
    }
}

words! {
    /// How a client proves who it is.
    pub enum SaslMechanism {
        /// The password itself.
        Plain = "PLAIN",
        /// A challenge hashed with SHA-256.
        Sha256 = "SCRAM-SHA-256",
        /// A challenge hashed with SHA-512.
        Sha512 = "SCRAM-SHA-512",
        /// A token of an issuer.
        OauthBearer = "OAUTHBEARER",
        /// A token signed with AWS credentials.
        AwsMskIam = "AWS_MSK_IAM",
    }
}

/// Where a task begins when the group has no offset of it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the oldest record that exists.
    #[default]
    Earliest,
    /// With the next record.
    Latest,
    /// With the first record whose timestamp is not before this, Unix ms; the end where there is none.
    Time(i64),
}

impl Leaf for Start {
    fn form() -> Form {
        Form::Choice { words: vec!["earliest", "latest", "a time as 2026-01-31T00:00:00Z"], is_closed: false }
    }

    fn parse(value: &Value) -> Result<Self, String> {
        match text_of(value)? {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            text => EventTime::parse_rfc3339(text)
                .map(|time| Self::Time(time.0))
                .ok_or_else(|| format!("is {text:?}, but must be earliest, latest or a time as 2026-01-31T00:00:00Z")),
        }
    }
}

fn policy_name(name: &str) -> Result<String, Vec<String>> {
    match name {
        "" => Err(vec!["is empty, but must be the name of a profile or a file".to_owned()]),
        name => Ok(name.to_owned()),
    }
}

/// `host:port`, separated by commas; spaces around them are dropped.
fn servers(list: &str) -> Result<String, Vec<String>> {
    let servers: Vec<&str> = list.split(',').map(str::trim).collect();
    let is_server = |server: &&&str| {
        server.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && !host.contains(['/', ' ']) && port.parse::<u16>().is_ok_and(|port| port > 0)
        })
    };
    let wrong: Vec<String> = servers
        .iter()
        .filter(|server| !is_server(server))
        .map(|server| format!("holds {server:?}, but must be host:port, separated by commas"))
        .collect();
    if wrong.is_empty() { Ok(servers.join(",")) } else { Err(wrong) }
}

impl Config {
    /// The directory of the state.
    ///
    /// # Errors
    /// E0202 where no layer named one.
    pub fn data_dir(&self) -> Result<&Path, Diagnostic> {
        self.data_dir.as_deref().ok_or_else(|| {
            Diagnostic::new(BAD, "data_dir is not set, but state needs a place on local disk").help(
                "give --data-dir DIR, as in: --data-dir ./lw, or set LOOPWARDEN_DATA_DIR or `data_dir` in the configuration",
            )
        })
    }

    /// Name of the application: the consumer group; in embedded mode `loopwarden`.
    pub fn app(&self) -> &str {
        self.kafka.as_ref().map_or("loopwarden", |kafka| kafka.group.as_str())
    }
}

impl InputConfig {
    /// What its records may be: `source`, `operator`.
    pub fn roles(&self) -> Vec<&str> {
        listed(&self.roles)
    }

    /// The tenants of its events; none: all of them.
    pub fn tenants(&self) -> Option<Vec<String>> {
        token::tenants_in(self.tenants.as_deref())
    }
}

impl HttpConfig {
    /// The bearer token, if there is one.
    ///
    /// # Errors
    /// As [`file::read_secret`].
    pub fn token(&self) -> Result<Option<String>, Diagnostic> {
        self.token_file.as_ref().map(|file| file::read_secret(file, "http.token_file")).transpose()
    }
}
