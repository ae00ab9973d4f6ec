//! The configuration of a process: every setting, once. To add one, add its field.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loopwarden_core::event::EventTime;
use loopwarden_core::limits::{LANES_MAX, POLICY_MS_MAX, RECORD_BYTES_MAX_CEILING};
use loopwarden_core::setting::{Begun, Form, Maybe, Needed, Sub, Tables, Text, kinds, one_of, settings, within, words};

use crate::messages::diagnostic::{BAD, Diagnostic};
use crate::process::kinds::{Address, FilePath, Native, Ruled, Verbatim, bad};
use crate::process::rules::{issuer, listed, plain_name, proxy, public};
use crate::{layers::file, process::token, process::token::TokenConfig, process::webhook::WebhookConfig};

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
        mode: ProcessMode = r#""shadow""#, one_of(ProcessMode::WORDS),
            "{words}: shadow decides and publishes commands that workers do not obey; live must be said";
        policy: String = r#""default""#, Ruled(policy_name), "name of a shipped profile, or a policy file; read again at SIGHUP";
        instance: String = r#""lw-0""#, Needed(Ruled(plain_name::<NAME_MAX>)),
            "stable, unique name of this process (letters, digits, . _ -); default: the host name";
        lanes: u32 = "0", within(0, i64::from(LANES_MAX)),
            "threads that consume and decide, at most 256; 0 = one per core; with Kafka one more adds up swarms";
        data_dir: Option<PathBuf> = r#""/var/lib/loopwarden""#, Maybe(FilePath),
            "state on local disk; no default; below /tmp only for who works there or has the file there: cleaners delete files";
        log: LogConfig, Sub(LogConfig::SETTINGS, LogConfig::read), "Log lines.";
        http: HttpConfig, Sub(HttpConfig::SETTINGS, HttpConfig::read), "The listener.";
        token: Vec<TokenConfig>, Tables(TokenConfig::SETTINGS, TokenConfig::read),
            "Who may reach the listener, and for what: a table for each token, in a file only.";
        limits: LimitsConfig, Sub(LimitsConfig::SETTINGS, LimitsConfig::read), "Sizes.";
        commit: CommitConfig, Sub(CommitConfig::SETTINGS, CommitConfig::read), "When a lane commits.";
        time: TimeConfig, Sub(TimeConfig::SETTINGS, TimeConfig::read), "Event time.";
        embedded: EmbeddedConfig, Sub(EmbeddedConfig::SETTINGS, EmbeddedConfig::read),
            "Embedded mode: without kafka.bootstrap_servers events come in over HTTP and everything stays in data_dir.";
        kafka: Option<KafkaConfig>, Begun("bootstrap_servers", Sub(KafkaConfig::SETTINGS, KafkaConfig::read)),
            "Kafka mode: begins with the key bootstrap_servers.";
        input: Vec<InputConfig>, Tables(InputConfig::SETTINGS, InputConfig::read),
            "Other topics, beside kafka.input: their records become events of kafka.input. A table for each, in a file only.";
        webhook: Vec<WebhookConfig>, Tables(WebhookConfig::SETTINGS, WebhookConfig::read),
            "Where commands are posted, besides. A table for each, in a file only.";
    }
}

settings! {
    /// `[[input]]`.
    pub struct InputConfig {
        topic: String = r#""otlp_spans""#, Needed(Ruled(plain_name::<TOPIC_MAX>)),
            "topic; its name is part of a consumer group and of transactions";
        form: InputForm = r#""native""#, one_of(InputForm::WORDS),
            "{words}: what its records are; native: events that have another key than their session";
        signal: OtlpSignal = r#""traces""#, one_of(OtlpSignal::WORDS),
            "{words}: what OpenTelemetry records hold; only for otlp_proto and otlp_json";
        mapping: Option<PathBuf> = r#""/etc/loopwarden/map.toml""#, Maybe(FilePath),
            "mapping (TOML, loopwarden map): json needs one, cloudevents may have one";
        roles: String = r#""source""#, Ruled(token::sender_roles),
            "what its records may be: source reports what agents do, operator resets, or both, separated by a comma";
        tenants: Option<String> = r#""acme""#, Maybe(Ruled(token::tenants)),
            "events of these tenants only, separated by commas; empty: of none; without: of all of them";
    }
}

settings! {
    /// `[log]`.
    pub struct LogConfig {
        level: String = r#""info""#, Text,
            "filter of log lines, as in RUST_LOG; read again at SIGHUP. LOOPWARDEN_LOG sets it too";
        format: LogFormat = r#""auto""#, one_of(LogFormat::WORDS), "{words}: auto is text on a terminal and JSON otherwise";
    }
}

settings! {
    /// `[http]`.
    pub struct HttpConfig {
        listen: SocketAddr = r#""127.0.0.1:9464""#, Address,
            "address and port of metrics, health and administration; loopback, since those show session ids";
        token_file: Option<PathBuf> = r#""/run/secrets/loopwarden-token""#, Maybe(FilePath),
            "file with a bearer token for everything and every tenant; tables `token` have some for less";
        local: LocalClients = r#""own_user""#, one_of(LocalClients::WORDS),
            "{words}: who on this host needs no token: programs of the user that loopwarden runs as, and root; nobody; or any user";
        mapping: Option<PathBuf> = r#""/etc/loopwarden/map.toml""#, Maybe(FilePath),
            "mapping (TOML, loopwarden map) of what POST /v1/events gets and is no native event; without: that is refused";
        public_url: Option<String> = r#""https://loopwarden.example.com""#, Maybe(Ruled(public)),
            "where browsers reach this process, with https, for links by which people answer messages of webhooks; needs link_secret_file";
        link_secret_file: Option<PathBuf> = r#""/run/secrets/link-secret""#, Maybe(FilePath),
            "file with the secret that signs these links, 32 characters at least, the same for all processes; another one ends every link";
        link_ms_max: i64 = "86_400_000", within(60_000, 7 * DAY_MS), "ms that a link holds: a day, at most seven";
        intake_lag_ms_max: u64 = "10_000", within(0, 3_600_000),
            "ms; events for lanes that are further behind are refused (429); 0 = never; only without Kafka";
        intake_share_ms_max: u64 = "1_000", within(0, 60_000),
            "ms for which events of all senders together may wait to be judged; each has a share of it; 0 = no shares; only without Kafka";
        ready_lag_ms_max: u64 = "0", within(0, 3_600_000),
            "ms; a process that is further behind is not ready; 0 = it only says so";
    }
}

settings! {
    /// `[limits]`.
    pub struct LimitsConfig {
        record_bytes_max: usize = "262_144", within(1024, RECORD_BYTES_MAX_CEILING as i64),
            "bytes, 1 KiB to 1 MiB; larger events are dead letters: a tool event is text cut by its producer";
        session_cache_bytes: usize = "268_435_456", within(MIB, 1024 * GIB),
            "bytes of decoded sessions of the whole process; more hits, fewer reads of the store";
        block_cache_bytes: usize = "268_435_456", within(MIB, 1024 * GIB),
            "bytes of the store's block cache, shared by all lanes";
        write_buffer_bytes: usize = "134_217_728", within(MIB, 64 * GIB),
            "bytes of the store's write buffers, all lanes together";
        fetch_queue_bytes: usize = "67_108_864", within(MIB, GIB),
            "bytes fetched ahead per lane; bounds memory when a backlog is read; in a restore three times as much";
    }
}

settings! {
    /// `[commit]`.
    pub struct CommitConfig {
        commit_ms_min: u64 = "2", within(0, 5_000),
            "ms between two commits at least: a transaction costs the brokers several writes";
        commit_ms_max: u64 = "100", within(1, 5_000),
            "ms from the first uncommitted record to its commit at most, up to 5,000; bounds a command's delay";
        overlay_bytes_max: usize = "33_554_432", within(MIB, GIB),
            "bytes of uncommitted changes per lane that force a commit, 1 MiB to 1 GiB";
        overlay_records_max: u64 = "50_000", within(1, 1_000_000),
            "records that do, up to 1,000,000: bounds what is done again after an abort";
    }
}

settings! {
    /// `[time]`.
    pub struct TimeConfig {
        lateness_ms: i64 = "60_000", within(0, DAY_MS),
            "ms; how far event times of one partition may lie apart before timers fire, up to a day";
    }
}

settings! {
    /// `[embedded]`.
    pub struct EmbeddedConfig {
        partitions: u32 = "4", within(1, 64), "1 to 64, fixed when data_dir is created: it decides where a session lives";
        retention_ms: i64 = "604_800_000", within(60_000, POLICY_MS_MAX),
            "ms that events and commands are kept: 7 days, at least a minute; less beyond 6 GiB of events, 2 GiB of commands";
    }
}

settings! {
    /// `[kafka]`.
    pub struct KafkaConfig {
        bootstrap_servers: String = r#""localhost:9092""#, Needed(Ruled(servers)), "host:port, separated by commas";
        group: String = r#""loopwarden""#, Ruled(plain_name::<NAME_MAX>),
            "consumer group; also names internal topics and transactions, so it is never changed";
        group_protocol: GroupProtocol = r#""classic""#, one_of(GroupProtocol::WORDS),
            "{words}: how the group shares out partitions; consumer is that of Kafka 4.0 on (KIP-848), see operations.md";
        start: Start = r#""earliest""#, StartAt, "{words}: where a group without offsets begins";
        input: String = r#""agents.tool-events.v1""#, Ruled(plain_name::<TOPIC_MAX>), "topic of events";
        commands: String = r#""agents.loop-commands.v1""#, Ruled(plain_name::<TOPIC_MAX>), "topic of commands";
        state: String = r#""agents.loop-state.v1""#, Ruled(plain_name::<TOPIC_MAX>), "topic of verdicts in force, compacted";
        dlq: String = r#""agents.loop-dlq.v1""#, Ruled(plain_name::<TOPIC_MAX>), "topic of dead letters";
        dlq_content: DeadLetterContent = r#""full""#, one_of(DeadLetterContent::WORDS),
            "{words}: what a dead letter has of the record's value; hash is its SHA-256";
        on_input_loss: OnTrouble = r#""continue""#, one_of(OnTrouble::WORDS),
            "{words}: what to do when input was deleted before it was read; continue counts it and goes on";
        on_bad_records: OnTrouble = r#""continue""#, one_of(OnTrouble::WORDS),
            "{words}: what to do when many senders send what is no event; continue makes dead letters of it and warns, stop ends the task";
        ca_file: Option<PathBuf> = r#""/etc/loopwarden/ca.pem""#, Maybe(FilePath),
            "PEM, authorities of the brokers' certificates; switches TLS on; see authentication.md for certificates the system knows";
        cert_file: Option<PathBuf> = r#""/etc/loopwarden/cert.pem""#, Maybe(FilePath),
            "PEM, certificate of this client; needs key_file";
        key_file: Option<PathBuf> = r#""/etc/loopwarden/key.pem""#, Maybe(FilePath), "PEM, its key";
        sasl_mechanism: Option<SaslMechanism> = r#""SCRAM-SHA-512""#, Maybe(one_of(SaslMechanism::WORDS)),
            "{words}; switches SASL on; the first three need username and password_file, OAUTHBEARER needs [kafka.oauth], AWS_MSK_IAM AWS's variables";
        aws_region: Option<String> = r#""eu-west-1""#, Maybe(Ruled(plain_name::<64>)),
            "region of the cluster, for AWS_MSK_IAM; default: AWS_REGION, else AWS_DEFAULT_REGION";
        token_proxy: Option<String> = r#""http://proxy.example.com:3128""#, Maybe(Ruled(proxy)),
            "proxy for questions to the issuer or to AWS (http://HOST:PORT), or environment: HTTPS_PROXY and NO_PROXY count; without: none";
        username: Option<String> = r#""loopwarden""#, Maybe(Text), "SASL user name";
        password_file: Option<PathBuf> = r#""/run/secrets/kafka-password""#, Maybe(FilePath),
            "file with the SASL password; a line end after it is dropped";
        oauth: OauthConfig, Sub(OauthConfig::SETTINGS, OauthConfig::read),
            "Tokens for OAUTHBEARER: from an issuer (token_url, client_id, client_secret_file), or from token_file.";
        librdkafka: Verbatim, Native,
            "any other librdkafka setting, verbatim, applied last, for every client; what exactly-once owns is refused";
        consumer: ClientConfig, Sub(ClientConfig::SETTINGS, ClientConfig::read), "for consumers, above those for every client";
        producer: ClientConfig, Sub(ClientConfig::SETTINGS, ClientConfig::read), "for producers, likewise";
    }
}

settings! {
    /// `[kafka.oauth]`.
    pub struct OauthConfig {
        token_url: Option<String> = r#""https://issuer.example.com/oauth2/token""#, Maybe(Ruled(issuer)),
            "token endpoint of the issuer, asked with client credentials; https, or http on this host";
        client_id: Option<String> = r#""loopwarden""#, Maybe(Text), "name of this client at the issuer";
        client_secret_file: Option<PathBuf> = r#""/run/secrets/oauth-client-secret""#, Maybe(FilePath),
            "file with its secret; read again for each token";
        scope: Option<String> = r#""kafka""#, Maybe(Text), "scopes to ask for, separated by spaces";
        ca_file: Option<PathBuf> = r#""/etc/loopwarden/issuer-ca.pem""#, Maybe(FilePath),
            "PEM, authorities of the issuer's certificate; without: those that the system knows";
        token_file: Option<PathBuf> = r#""/var/run/secrets/tokens/kafka""#, Maybe(FilePath),
            "file with a token (JWT) that something else renews, as Kubernetes does; read again every 2 s";
    }
}

settings! {
    /// `[kafka.consumer]`, `[kafka.producer]`.
    pub struct ClientConfig {
        librdkafka: Verbatim, Native, "librdkafka settings";
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
    /// What happens where the input is not as it should be.
    pub enum OnTrouble {
        /// Go on, loudly.
        Continue = "continue",
        /// Stop, until a person has decided.
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

kinds! {
    /// Where a task begins.
    StartAt -> Start, |_| String::new(), |_, key| match key.text() {
        "earliest" => Start::Earliest,
        "latest" => Start::Latest,
        text => EventTime::parse_rfc3339(text).map_or_else(
            || {
                bad(key, &format!("is {text:?}, but must be earliest, latest or a time as 2026-01-31T00:00:00Z"));
                Start::Earliest
            },
            |time| Start::Time(time.0),
        ),
    }, |_| Form::Words { words: vec!["earliest", "latest", "a time as 2026-01-31T00:00:00Z"], is_closed: false };
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
