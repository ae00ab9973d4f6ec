//! Posts committed commands to a URL, as CloudEvents, records of OpenTelemetry or messages for people: in order, each at least once (page `webhooks`).
//!
//! A webhook has a thread of its own and reads what is committed, as any reader does. So nothing that happens to it, or that a receiver
//! does to it, is felt by a lane.

mod answer;
mod chat;
mod client;
mod cloud_event;
mod embedded;
mod link;
mod otlp;
mod position;
mod report;
mod sample;
mod settings;
mod sign;
mod source;
mod webhook;

pub use answer::HttpStatus;
pub use chat::Chat;
pub use client::Client;
pub use embedded::{EmbeddedSource, ReaderSlot};
pub use link::{AnswerKind, BadLink, Link, LinkKey, Links};
pub use report::{WebhookReport, WebhookStats};
pub use settings::{Format, Token, WebhookSettings};
pub use sign::Secret;
pub use source::Source;
pub use webhook::{Open, Webhook};
