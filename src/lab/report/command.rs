//! A published command as a report reads it: from the value that is sent, or from its bytes. Both are read in the form of
//! [`loopwarden_core::wire`], so that a report cannot differ from what was sent.

use std::borrow::Cow;

use loopwarden_core::engine::{Action, Command};
use loopwarden_core::wire::{Engine, Fact, Text};
use loopwarden_core::{event::EventTime, wire};
use serde::Serialize;

use crate::report::distinct::hash_of;

/// Subject of a command about all sessions.
const FLEET: &str = "(fleet)";

/// What a command does, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    /// Ends a block.
    Unblock,
    /// A message for the model.
    Nudge,
    Block,
}

impl CommandKind {
    const fn of(action: Action) -> Self {
        match action {
            Action::Unblock => Self::Unblock,
            Action::Nudge => Self::Nudge,
            Action::Block => Self::Block,
        }
    }

    /// The word in commands.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unblock => Action::Unblock.as_str(),
            Self::Nudge => Action::Nudge.as_str(),
            Self::Block => Action::Block.as_str(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedCommand {
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
    pub event_id: Option<String>,
    /// Time of issue, if what was written is a time.
    pub issued_at: Option<EventTime>,
}

impl PublishedCommand {
    /// The same as [`PublishedCommand::parse`] of what is written of a command, by a process that is not in shadow mode itself.
    pub fn of(command: &Command) -> Self {
        let mode = if command.is_shadow { wire::SHADOW } else { wire::LIVE };
        Self::read(CommandKind::of(command.action), wire::Command::of(command, mode, Engine::default()))
    }

    /// Reads a `command.v1`; `None` if it is not one.
    pub fn parse(json: &[u8]) -> Option<Self> {
        let command: wire::Command<'_> = serde_json::from_slice(json).ok()?;
        Some(Self::read(CommandKind::of(Action::from_name(&command.action)?), command))
    }

    fn read(kind: CommandKind, command: wire::Command<'_>) -> Self {
        let evidence = command.reason.evidence;
        let count = |name: &str| match evidence.get(name) {
            Some(Fact::Count(count)) => Some(*count),
            _ => None,
        };
        let of_evidence = || match evidence.get("tool") {
            Some(Fact::Text(tool)) => Some(tool.clone()),
            _ => None,
        };
        Self {
            kind,
            is_shadow: command.mode == wire::SHADOW,
            code: command.reason.code.into_owned(),
            tenant: owned(command.tenant).unwrap_or_default(),
            is_swarm: command.session_id.is_none() && command.swarm_id.is_some(),
            subject: owned(command.session_id.or(command.swarm_id)).unwrap_or_else(|| FLEET.to_owned()),
            agent: owned(command.scope.agent_id),
            tool: owned(command.scope.tool.or_else(of_evidence)),
            summary: owned(command.reason.summary).unwrap_or_default(),
            count: count("count"),
            workers: count("workers"),
            event_id: owned(command.trigger.event_id),
            issued_at: command.issued_at,
        }
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

fn owned(text: Option<Text<'_>>) -> Option<String> {
    text.map(Cow::into_owned)
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
            issued_at: None,
        }
    }

    #[test]
    fn a_command_is_read_back_and_anything_else_is_none() {
        let command = PublishedCommand::parse(
            br#"{"v":1,"id":"c","action":"block","session_id":"s","scope":{"kind":"session","agent_id":"main","tool":"Bash"},"level":3,
                "epoch":1,"seq":1,"episode":"c","issued_at":"1970-01-01T00:00:01.000Z","expires_at":"1970-01-01T00:00:02.000Z",
                "mode":"shadow","reason":{"code":"exact_repeat","summary":"x","evidence":{"count":7,"new":{}}},
                "trigger":{"event_id":"a3"}}"#,
        )
        .expect("a command");
        assert_eq!((command.kind, command.is_shadow, command.count), (CommandKind::Block, true, Some(7)));
        assert_eq!((command.tool.as_deref(), command.issued_at), (Some("Bash"), Some(EventTime(1_000))));
        assert_eq!(command.event_id.as_deref(), Some("a3"));
        assert_eq!(PublishedCommand::parse(b"{\"action\":\"dance\"}"), None);
        assert_eq!(PublishedCommand::parse(b"null"), None);
    }
}
