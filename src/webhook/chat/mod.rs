//! A command as a message for people: what chats and pagers take at the URLs that they give away.
//!
//! Names of sessions, agents and tools come from agents and may be hostile. Each provider has a field or an escape in which text stays text:
//! no mention, no link, no format. Each part is cut to what the provider takes, so that no name makes it refuse a command.

mod discord;
mod notice;
mod pagerduty;
mod slack;
mod teams;

use serde_json::Value;

pub(crate) use discord::with_components;
pub(crate) use notice::asks_human;
pub(crate) use pagerduty::with_routing_key;

use crate::{chat::notice::Notice, link::Button};

/// A provider whose users read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chat {
    /// Incoming webhooks: blocks, and a text for notifications.
    Slack,
    /// Workflows that take an adaptive card.
    Teams,
    /// Webhooks of a channel: an embed.
    Discord,
    /// Events API v2: an incident, which an `unblock` resolves.
    PagerDuty,
}

/// The body of a request with this command, and with links to answer it.
pub(crate) fn body(chat: Chat, command: &Value, buttons: &[Button]) -> Vec<u8> {
    let notice = Notice::of(command);
    let body = match chat {
        Chat::Slack => slack::body(&notice, buttons),
        Chat::Teams => teams::body(&notice, buttons),
        Chat::Discord => discord::body(&notice, buttons),
        Chat::PagerDuty => pagerduty::body(&notice, buttons),
    };
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests;
