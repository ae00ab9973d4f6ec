//! A published command as a report reads it: from the value that is sent, or from its bytes. A test holds the two against each other, so
//! that a report cannot differ from what was sent.

use std::borrow::Cow;

use loopwarden_core::engine::{Action, Command, Fact, SubjectKey, Trigger as Cause};
use loopwarden_core::event::EventTime;
use serde::{Deserialize, Serialize};

use crate::report::distinct::hash_of;

/// Subject of a command about all sessions.
const FLEET: &str = "(fleet)";

/// What a command does, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    /// Ends a block.
    Unblock,
    /// A message for the model.
    Nudge,
    /// Refuses calls.
    Block,
}

impl CommandKind {
    /// The name in commands.
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
pub struct PublishedCommand {
    /// What it does.
    pub kind: CommandKind,
    /// Published for observation only: nobody obeys it.
    pub is_shadow: bool,
    /// Detector, or why a block ended.
    pub code: String,
    /// Tenant; empty = none.
    pub tenant: String,
    /// Session or swarm that it is about.
    pub subject: String,
    /// It is about a swarm.
    pub is_swarm: bool,
    /// Agent that it addresses, where it is one.
    pub agent: Option<String>,
    /// Tool that it is about, where it is one.
    pub tool: Option<String>,
    /// What was found, in a sentence.
    pub summary: String,
    /// Number of calls found.
    pub count: Option<u64>,
    /// Number of agents of a swarm among which the calls were counted.
    pub workers: Option<u64>,
    /// Event that caused it.
    pub event_id: Option<String>,
    /// Time of issue, as written.
    pub issued_at: String,
}

/// The part of a `command.v1` that a report reads.
#[derive(Deserialize)]
struct Wire<'a> {
    action: CommandKind,
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

impl PublishedCommand {
    /// The same as [`PublishedCommand::parse`] of what is written of a command, by a process that is not in shadow mode itself.
    pub fn of(command: &Command) -> Self {
        let (tenant, subject, agent) = match &command.subject {
            SubjectKey::Agent { tenant, session_id, agent_id } => (tenant, session_id.as_str(), Some(agent_id.clone())),
            SubjectKey::Swarm { tenant, swarm_id, .. } => (tenant, swarm_id.as_str(), None),
            SubjectKey::Fleet { tenant, .. } => (tenant, FLEET, None),
        };
        let fact = |name| command.evidence.iter().find(|(found, _)| *found == name).map(|(_, fact)| fact);
        let count = |name| match fact(name) {
            Some(Fact::Count(count)) => Some(*count),
            _ => None,
        };
        let named = match fact("tool") {
            Some(Fact::Text(tool)) => Some(tool),
            _ => None,
        };
        Self {
            kind: match command.action {
                Action::Nudge => CommandKind::Nudge,
                Action::Block => CommandKind::Block,
                Action::Unblock => CommandKind::Unblock,
            },
            is_shadow: command.is_shadow,
            code: command.reason.as_str().to_owned(),
            tenant: tenant.clone(),
            subject: subject.to_owned(),
            is_swarm: matches!(command.subject, SubjectKey::Swarm { .. }),
            agent,
            tool: command.scope.tool.as_ref().or(named).cloned(),
            summary: command.summary.clone(),
            count: count("count"),
            workers: count("workers"),
            event_id: match &command.trigger {
                Cause::Event { event_id, .. } => Some(event_id.clone()),
                Cause::Window { .. } => None,
            },
            issued_at: command.issued_at.to_string(),
        }
    }

    /// Reads a `command.v1`; `None` if it is not one.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let wire: Wire<'_> = serde_json::from_slice(json).ok()?;
        Some(Self {
            kind: wire.action,
            is_shadow: wire.mode == "shadow",
            code: wire.reason.code,
            tenant: wire.tenant,
            is_swarm: wire.session_id.is_none() && wire.swarm_id.is_some(),
            subject: wire.session_id.or(wire.swarm_id).unwrap_or_else(|| FLEET.to_owned()),
            agent: wire.scope.agent_id,
            tool: wire.scope.tool.or(wire.reason.evidence.tool),
            summary: wire.reason.summary,
            count: wire.reason.evidence.count,
            workers: wire.reason.evidence.workers,
            event_id: wire.trigger.event_id,
            issued_at: wire.issued_at,
        })
    }

    /// Time of issue, if it is a time.
    pub(super) fn time(&self) -> Option<EventTime> {
        EventTime::parse_rfc3339(&self.issued_at)
    }

    /// Hash of tenant and subject, for counting.
    pub(super) fn subject_hash(&self) -> u64 {
        hash_of(&self.tenant, &self.subject)
    }

    /// Whether it is a nudge or a block that agents obey.
    pub(super) fn is_in_force(&self) -> bool {
        !self.is_shadow && self.kind != CommandKind::Unblock
    }
}

/// Number of commands by what they are. An `unblock` is none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CommandCounts {
    /// Nudges in force.
    pub nudges: u64,
    /// Blocks in force.
    pub blocks: u64,
    /// Nudges and blocks of detectors in shadow mode.
    pub shadow: u64,
}

impl CommandCounts {
    pub(super) const fn note(&mut self, kind: CommandKind, is_shadow: bool) {
        match (is_shadow, kind) {
            (_, CommandKind::Unblock) => {}
            (true, _) => self.shadow += 1,
            (false, CommandKind::Nudge) => self.nudges += 1,
            (false, CommandKind::Block) => self.blocks += 1,
        }
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.nudges += other.nudges;
        self.blocks += other.blocks;
        self.shadow += other.shadow;
    }

    pub const fn in_force(self) -> u64 {
        self.nudges + self.blocks
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A command about the session.
    pub(in crate::report) fn command(subject: &str, code: &str, kind: CommandKind) -> PublishedCommand {
        PublishedCommand {
            kind,
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
        let command = PublishedCommand::parse(
            br#"{"action":"block","session_id":"s","scope":{"agent_id":"main","tool":"Bash"},"mode":"shadow",
                "issued_at":"1970-01-01T00:00:01.000Z",
                "reason":{"code":"exact_repeat","summary":"x","evidence":{"count":7}},"trigger":{"event_id":"a3"}}"#,
        )
        .expect("a command");
        assert_eq!((command.kind, command.is_shadow, command.count), (CommandKind::Block, true, Some(7)));
        assert_eq!((command.tool.as_deref(), command.time()), (Some("Bash"), Some(EventTime(1_000))));
        assert_eq!(command.event_id.as_deref(), Some("a3"));
        assert_eq!(PublishedCommand::parse(b"{\"action\":\"dance\"}"), None);
        assert_eq!(PublishedCommand::parse(b"null"), None);
    }
}
