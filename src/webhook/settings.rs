//! What a webhook is told once.

use std::{path::PathBuf, time::Duration};

use loopwarden_token::Way;

use crate::{chat::Chat, link::Links, sign::Secret};

/// How a command is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Attributes are headers, the body is the command (binary content mode).
    Binary,
    /// One JSON document holds both (structured content mode).
    Structured,
    /// A log record of OpenTelemetry, in JSON.
    Otlp,
    /// A message for people, in a provider's form.
    Chat(Chat),
}

/// How a request proves where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Read again for each request, so that a new token needs no restart.
    pub file: PathBuf,
    /// The header that carries the token as it is; none: `Authorization: Bearer`.
    pub header: Option<String>,
}

/// Valid values only. The URL may be a secret itself: no message has it.
#[derive(Clone)]
pub struct WebhookSettings {
    /// Names it in metrics and log lines.
    pub name: String,
    /// With http or https.
    pub url: String,
    pub format: Format,
    /// Words of the actions that are sent.
    pub actions: Vec<String>,
    /// The only tenant whose commands are sent; empty: those of none.
    pub tenant: Option<String>,
    /// Whether a command past its `expires_at` is dropped.
    pub drops_expired: bool,
    /// For PagerDuty the routing key, which stands in the body.
    pub token: Option<Token>,
    /// What the links of messages for people are made of; none: they have no links.
    pub links: Option<Links>,
    pub secret: Option<Secret>,
    /// PEM; without, the authorities of the system.
    pub ca_file: Option<PathBuf>,
    /// How the receiver is reached.
    pub way: Way,
    pub connect_wait: Duration,
    /// Wait for a whole request, from the look-up of the name to the end of the answer.
    pub request_wait: Duration,
}

impl std::fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookSettings").field("name", &self.name).finish_non_exhaustive()
    }
}
