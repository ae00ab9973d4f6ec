//! What people are to read of a command, in the same order everywhere.

use loopwarden_core::{engine::Advice, event::is_unseen, wire::whom};
use serde_json::Value;

/// A name and its value, beside the text.
pub(super) struct Fact {
    pub(super) name: &'static str,
    pub(super) value: String,
}

/// Of a command, cleaned and cut. Whatever is missing is empty.
pub(super) struct Notice {
    pub(super) action: String,
    /// A person is to look at the agent.
    pub(super) asks_human: bool,
    /// Who is meant, as `session sess-42`.
    pub(super) subject: String,
    /// Why: numbers and a tool in one line.
    pub(super) summary: String,
    /// The text for the agent.
    pub(super) message: String,
    pub(super) facts: Vec<Fact>,
    /// Whether workers are to act on it.
    pub(super) is_live: bool,
    /// Id of the loop: that of its first command.
    pub(super) episode: String,
    /// When it was issued, RFC 3339; empty where that is no such time.
    pub(super) issued_at: String,
    /// The detector that has spoken.
    pub(super) code: String,
}

/// Longest name. Characters; events allow as many bytes.
const NAME_CHARS_MAX: usize = 256;
/// Longest line of a reason, as the schema of commands has it. Characters.
const SUMMARY_CHARS_MAX: usize = 512;
/// Longest text for an agent. Characters. A block of Slack takes 3,000.
const MESSAGE_CHARS_MAX: usize = 2_000;

impl Notice {
    pub(super) fn of(command: &Value) -> Self {
        let at =
            |pointer: &str, chars_max| clean(command.pointer(pointer).and_then(Value::as_str).unwrap_or_default(), chars_max);
        let name = |pointer: &str| at(pointer, NAME_CHARS_MAX);
        let session = name("/session_id");
        let subject = if session.is_empty() { whom(name) } else { format!("session {session}") };
        let (code, mode) = (name("/reason/code"), name("/mode"));
        let facts = [
            ("Agent", name("/scope/agent_id")),
            ("Tool", name("/scope/tool")),
            ("Detector", code.clone()),
            ("Until", name("/expires_at")),
            ("Tenant", name("/tenant")),
            ("By", name("/scope/by")),
            ("Mode", mode.clone()),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| Fact { name, value });
        let issued_at = name("/issued_at");
        let is_time = loopwarden_core::event::EventTime::parse_rfc3339(&issued_at).is_some();
        Self {
            action: name("/action"),
            asks_human: asks_human(command),
            subject,
            summary: at("/reason/summary", SUMMARY_CHARS_MAX),
            message: at("/message", MESSAGE_CHARS_MAX),
            facts: facts.collect(),
            is_live: mode == "live",
            episode: name("/episode"),
            issued_at: if is_time { issued_at } else { String::new() },
            code,
        }
    }

    /// The line that stands alone, as in a notification.
    pub(super) fn title(&self) -> String {
        let binds = if self.is_live { "" } else { " (binds nobody)" };
        let what = if self.asks_human { "a person is asked for" } else { &self.action };
        format!("loopwarden: {what} for {}{binds}", self.subject)
    }
}

/// Whether a command asks for a person.
pub(crate) fn asks_human(command: &Value) -> bool {
    command.get("advice").and_then(Value::as_str) == Some(Advice::AskHuman.as_str())
}

/// One line of at most so many characters. What is not seen, breaks a line or turns its direction becomes a blank.
pub(super) fn clean(text: &str, chars_max: usize) -> String {
    cut(text.chars().map(|letter| if is_unseen(letter) { ' ' } else { letter }), chars_max)
}

/// The first of these characters; an ellipsis stands for the rest.
pub(super) fn cut(text: impl Iterator<Item = char>, chars_max: usize) -> String {
    let mut text = text.peekable();
    let mut kept: String = text.by_ref().take(chars_max.saturating_sub(1)).collect();
    if let Some(last) = text.next() {
        kept.push(if text.peek().is_none() { last } else { '…' });
    }
    kept
}
