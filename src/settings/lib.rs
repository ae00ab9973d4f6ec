//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! The configuration is declared once, in `process`, as policies are in the core; checks, messages, schemas and the documented file follow.

mod document;

/// Layers of a file: read as trees, merged, checked against the shape of the defaults.
mod layers {
    pub(crate) mod documented;
    pub(crate) mod file;
    pub(crate) mod names;
    pub(crate) mod native;
    pub(crate) mod shape;
    pub(crate) mod tree;
}

/// Messages for people: a code, what happened, where, what to do, and a page per code.
mod messages {
    pub(crate) mod diagnostic;
    pub(crate) mod explain;
}

/// Policy files: their layers, their schema, and keys that do nothing.
pub mod policy {
    pub(crate) mod idle;
    pub(crate) mod layers;
    pub(crate) mod tools;
    pub use layers::{LoadedPolicy, load, load_from_str, load_with, load_with_overrides};
}

/// The settings of a process, and what they demand of one another.
mod process {
    pub(crate) mod config;
    pub(crate) mod kinds;
    pub(crate) mod load;
    pub(crate) mod relations;
    pub(crate) mod rules;
    pub(crate) mod token;
    pub(crate) mod webhook;
}

pub use document::{Key, config_schema, keys, policy_schema};
pub use layers::file::read_secret;
pub use layers::tree::Effective;
pub use messages::diagnostic::{Diagnostic, Diagnostics, Origin, closest};
pub use messages::explain::{PAGES, Page, explain};
pub use process::config::{
    ClientConfig, CommitConfig, Config, DeadLetterContent, EmbeddedConfig, GroupProtocol, HttpConfig, InputConfig, InputForm,
    KafkaConfig, LimitsConfig, LocalClients, LogConfig, LogFormat, OauthConfig, OnTrouble, OtlpSignal, ProcessMode,
    SaslMechanism, Start, TimeConfig,
};
pub use process::kinds::Verbatim;
pub use process::load::{Flag, Layers, Loaded, default_file, load};
pub use process::token::{TokenConfig, same_token};
pub use process::webhook::{ExpiredCommand, WebhookConfig, WebhookFormat, WebhookStart};
