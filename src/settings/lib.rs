//! What people write: configuration and policy files, their layers, and every problem with its place.
//!
//! The configuration is declared once, in `config`; checks, messages, schema and the documented file follow from it.

mod describe;
mod layers;
mod messages;
pub mod policy;
mod process;

pub use describe::entry::Verbatim;
pub use describe::reference::default_file;
pub use describe::schema::config as config_schema;
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
