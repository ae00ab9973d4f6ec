//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! The configuration is declared once, in `config`; checks, messages, schema and the documented file follow from it.

mod keys;

/// A setting, described once: what follows from its row for people, for schemas and for checks.
mod describe {
    pub(crate) mod entry;
    #[cfg(test)]
    pub(crate) mod once;
    pub(crate) mod reference;
    pub(crate) mod schema;
    pub(crate) mod tables;
}

/// Layers of a configuration: files read as trees, merged, checked against the shape of the defaults.
mod layers {
    pub(crate) mod file;
    pub(crate) mod load;
    pub(crate) mod names;
    pub(crate) mod shape;
    pub(crate) mod suggest;
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
    pub(crate) mod schema;
    pub(crate) mod tools;
    pub use layers::{LoadedPolicy, load, load_from_str, load_with, load_with_overrides};
}

/// The settings of a process, and what they demand of one another.
mod process {
    pub(crate) mod config;
    pub(crate) mod native;
    pub(crate) mod relations;
    pub(crate) mod rules;
    pub(crate) mod token;
    pub(crate) mod webhook;
}

pub use describe::entry::Verbatim;
pub use describe::reference::default_file;
pub use describe::schema::config as config_schema;
pub use keys::{Key, keys};
pub use layers::file::read_secret;
pub use layers::load::{Flag, Layers, Loaded, load};
pub use layers::suggest::closest;
pub use layers::tree::Effective;
pub use messages::diagnostic::{Diagnostic, Diagnostics, Origin};
pub use messages::explain::{PAGES, Page, explain};
pub use policy::schema::policy as policy_schema;
pub use process::config::{
    ClientConfig, CommitConfig, Config, DeadLetterContent, EmbeddedConfig, GroupProtocol, HttpConfig, InputConfig, InputForm,
    KafkaConfig, LimitsConfig, LocalClients, LogConfig, LogFormat, OauthConfig, OnInputLoss, OtlpSignal, ProcessMode,
    SaslMechanism, Start, TimeConfig,
};
pub use process::token::{TokenConfig, same_token};
pub use process::webhook::{ExpiredCommand, WebhookConfig, WebhookFormat, WebhookStart};
