//! Which links of messages are taken: by the secret that has signed them, and by what their webhook allows now.

use std::collections::BTreeMap;

use loopwarden_webhook::{AnswerKind, LinkKey};

/// What the links of one webhook may do.
#[derive(Debug, Clone, Default)]
pub struct LinkRights {
    pub answers: Vec<AnswerKind>,
    /// Its only tenant; none: all of them.
    pub tenant: Option<String>,
}

/// Which links are taken, by their secret and their webhooks.
#[derive(Debug, Clone)]
pub struct AnswerLinks {
    pub key: LinkKey,
    /// By the name of the webhook. What is not there any more has no links any more.
    pub webhooks: BTreeMap<String, LinkRights>,
}
