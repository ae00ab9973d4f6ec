//! A published command, as a report reads it: from the bytes that went out, so that a report can say nothing else.

use std::borrow::Cow;

use loopwarden_core::event::EventTime;
use serde::Deserialize;

use crate::report::distinct::hash_of;

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
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session, or swarm, it is about.
    pub subject: String,
    /// It is about a swarm.
    pub is_swarm: bool,
    /// Agent it addresses, where it is one.
    pub agent: Option<String>,
    /// Tool it is about, where it is one.
    pub tool: Option<String>,
    /// What was found, in a sentence.
    pub summary: String,
    /// How often.
    pub count: Option<u64>,
    /// Agents that a swarm's call was counted among.
    pub workers: Option<u64>,
    /// Event that caused it.
    pub event_id: Option<String>,
    /// When it was issued, as written.
    pub issued_at: String,
}

/// What a report reads of a `command.v1`.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    mode: Cow<'a, str>,
    #[serde(default)]
    tenant: String,
    session_id: Option<String>,
    swarm_id: Option<String>,
    #[serde(default)]
    scope: Scope,
    reason: Reason,
    #[serde(default)]
    trigger: Trigger,
    #[serde(default)]
    issued_at: String,
}

#[derive(Deserialize, Default)]
struct Scope {
    agent_id: Option<String>,
    tool: Option<String>,
}

#[derive(Deserialize)]
struct Reason {
    code: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    evidence: Evidence,
}

#[derive(Deserialize, Default)]
struct Evidence {
    count: Option<u64>,
    workers: Option<u64>,
    tool: Option<String>,
}

#[derive(Deserialize, Default)]
struct Trigger {
    event_id: Option<String>,
}

impl Said {
    /// Reads a `command.v1`; `None` for what is none.
    #[must_use]
    pub fn parse(json: &[u8]) -> Option<Self> {
        let wire: Wire<'_> = serde_json::from_slice(json).ok()?;
        Some(Self {
            deed: match wire.action.as_ref() {
                "nudge" => Deed::Nudge,
                "block" => Deed::Block,
                "unblock" => Deed::Unblock,
                _ => return None,
            },
            is_shadow: wire.mode == "shadow",
            code: wire.reason.code,
            tenant: wire.tenant,
            is_swarm: wire.session_id.is_none() && wire.swarm_id.is_some(),
            subject: wire.session_id.or(wire.swarm_id).unwrap_or_else(|| "(fleet)".to_owned()),
            agent: wire.scope.agent_id,
            tool: wire.scope.tool.or(wire.reason.evidence.tool),
            summary: wire.reason.summary,
            count: wire.reason.evidence.count,
            workers: wire.reason.evidence.workers,
            event_id: wire.trigger.event_id,
            issued_at: wire.issued_at,
        })
    }

    /// When it was issued, where that is a time.
    #[must_use]
    pub fn time(&self) -> Option<EventTime> {
        EventTime::parse_rfc3339(&self.issued_at)
    }

    /// Tenant and subject in one, for counting.
    pub(super) fn subject_hash(&self) -> u64 {
        hash_of(&self.tenant, &self.subject)
    }

    /// Whether it tells or refuses something, and is meant.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.is_shadow && self.deed != Deed::Unblock
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A command about the session.
    pub(in crate::report) fn said(subject: &str, code: &str, deed: Deed) -> Said {
        Said {
            deed,
            is_shadow: false,
            code: code.to_owned(),
            tenant: String::new(),
            subject: subject.to_owned(),
            is_swarm: false,
            agent: None,
            tool: None,
            summary: String::new(),
            count: None,
            workers: None,
            event_id: None,
            issued_at: String::new(),
        }
    }

    #[test]
    fn a_command_is_read_back_and_anything_else_is_none() {
        let said = Said::parse(
            br#"{"action":"block","session_id":"s","scope":{"agent_id":"main","tool":"Bash"},"mode":"shadow",
                "issued_at":"1970-01-01T00:00:01.000Z",
                "reason":{"code":"exact_repeat","summary":"x","evidence":{"count":7}},"trigger":{"event_id":"a3"}}"#,
        )
        .expect("a command");
        assert_eq!((said.deed, said.is_shadow, said.count, said.event_id.as_deref()), (Deed::Block, true, Some(7), Some("a3")));
        assert_eq!((said.tool.as_deref(), said.time()), (Some("Bash"), Some(EventTime(1_000))));
        assert_eq!(Said::parse(b"{\"action\":\"dance\"}"), None);
        assert_eq!(Said::parse(b"null"), None);
    }
}
