//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! The configuration is declared once, in `config`; checks, messages, schema and the documented file follow from it.

mod config;
mod diagnostic;
mod entry;
mod explain;
mod file;
mod idle;
mod load;
mod names;
mod native;
#[cfg(test)]
mod once;
pub mod policy;
mod policy_schema;
mod reference;
mod relations;
mod rules;
mod schema;
mod shape;
mod suggest;
mod tables;
mod token;
mod tools;
mod tree;
mod webhook;

pub use config::{
    ClientConfig, CommitConfig, Config, DeadLetterContent, EmbeddedConfig, GroupProtocol, HttpConfig, InputConfig, InputForm,
    KafkaConfig, LimitsConfig, LocalClients, LogConfig, LogFormat, OauthConfig, OnInputLoss, OtlpSignal, ProcessMode,
    SaslMechanism, Start, TimeConfig,
};
pub use diagnostic::{Diagnostic, Diagnostics, Origin};
pub use entry::Verbatim;
pub use explain::{PAGES, Page, explain};
pub use file::read_secret;
pub use load::{Flag, Layers, Loaded, load};
pub use policy_schema::policy as policy_schema;
pub use reference::default_file;
pub use schema::config as config_schema;
pub use suggest::closest;
pub use token::{TokenConfig, same_token};
pub use tree::Effective;
pub use webhook::{ExpiredCommand, WebhookConfig, WebhookFormat, WebhookStart};
