//! A published command, as a report reads it: from the bytes that went out, so that a report can say nothing else.

use serde_json::Value;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Lifts a block.
    Unblock,
    /// A word to the model.
    Nudge,
    /// Refuses calls.
    Block,
}

impl Deed {
    /// The name in commands.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unblock => "unblock",
            Self::Nudge => "nudge",
            Self::Block => "block",
        }
    }
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What it does.
    pub deed: Deed,
    /// Published to be looked at, not to be obeyed.
    pub is_shadow: bool,
    /// Detector, or why a block was lifted.
    pub code: String,
    /// Session, or swarm, it is about.
    pub subject: String,
    /// Agent it addresses, where it is one.
    pub agent: Option<String>,
    /// What was found, in a sentence.
    pub summary: String,
    /// How often.
    pub count: Option<u64>,
    /// Event that caused it.
    pub event_id: Option<String>,
    /// When it was issued, as written.
    pub issued_at: String,
}

impl Said {
    /// Reads a `command.v1`; `None` for what is none.
    #[must_use]
    pub fn parse(json: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(json).ok()?;
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            deed: match value.get("action")?.as_str()? {
                "nudge" => Deed::Nudge,
                "block" => Deed::Block,
                "unblock" => Deed::Unblock,
                _ => return None,
            },
            is_shadow: value.get("mode")?.as_str()? == "shadow",
            code: text("/reason/code")?,
            subject: text("/session_id").or_else(|| text("/swarm_id")).unwrap_or_else(|| "(fleet)".to_owned()),
            agent: text("/scope/agent_id"),
            summary: text("/reason/summary").unwrap_or_default(),
            count: value.pointer("/reason/evidence/count").and_then(Value::as_u64),
            event_id: text("/trigger/event_id"),
            issued_at: text("/issued_at").unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_back_and_anything_else_is_none() {
        let said = Said::parse(
            br#"{"action":"block","session_id":"s","scope":{"agent_id":"main"},"mode":"shadow","issued_at":"t",
                "reason":{"code":"exact_repeat","summary":"x","evidence":{"count":7}},"trigger":{"event_id":"a3"}}"#,
        )
        .expect("a command");
        assert_eq!((said.deed, said.is_shadow, said.count, said.event_id.as_deref()), (Deed::Block, true, Some(7), Some("a3")));
        assert_eq!(Said::parse(b"{\"action\":\"dance\"}"), None);
        assert_eq!(Said::parse(b"null"), None);
    }
}
