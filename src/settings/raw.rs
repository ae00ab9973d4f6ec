//! What was written: all layers merged, not yet checked. Nothing but `validate` sees it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Merged settings; the fields are the keys of `config/default.toml`, which documents each. `None`: no layer set it.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is the key of that name, documented in config/default.toml")]
pub struct RawConfig {
    pub mode: String,
    pub policy: String,
    pub instance: Option<String>,
    pub lanes: i64,
    pub data_dir: Option<String>,
    pub log: RawLog,
    pub http: RawHttp,
    pub limits: RawLimits,
    pub commit: RawCommit,
    pub time: RawTime,
    pub embedded: RawEmbedded,
    pub kafka: RawKafka,
}

/// `[log]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawLog {
    pub level: String,
    pub format: String,
}

/// `[http]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawHttp {
    pub listen: String,
    pub token_file: Option<String>,
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawLimits {
    pub record_bytes_max: i64,
    pub session_cache_bytes: i64,
    pub block_cache_bytes: i64,
    pub write_buffer_bytes: i64,
    pub fetch_queue_bytes: i64,
}

/// `[commit]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawCommit {
    pub commit_ms_min: i64,
    pub commit_ms_max: i64,
    pub overlay_bytes_max: i64,
    pub overlay_records_max: i64,
}

/// `[time]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawTime {
    pub lateness_ms: i64,
}

/// `[embedded]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawEmbedded {
    pub partitions: i64,
    pub retention_ms: i64,
}

/// `[kafka]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawKafka {
    pub bootstrap_servers: Option<String>,
    pub group: String,
    pub start: String,
    pub input: String,
    pub commands: String,
    pub state: String,
    pub dlq: String,
    pub dlq_content: String,
    pub on_input_loss: String,
    pub ca_file: Option<String>,
    pub cert_file: Option<String>,
    pub key_file: Option<String>,
    pub sasl_mechanism: Option<String>,
    pub username: Option<String>,
    pub password_file: Option<String>,
    pub librdkafka: BTreeMap<String, String>,
    pub consumer: RawClient,
    pub producer: RawClient,
}

/// `[kafka.consumer]`, `[kafka.producer]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as above")]
pub struct RawClient {
    pub librdkafka: BTreeMap<String, String>,
}
