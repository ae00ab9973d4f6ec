//! Whose state is meant: one agent of a session, one fingerprint of a swarm, one of the fleet, a whole group of agents, whom an operator
//! stops.

use std::borrow::Cow;

use crate::event::{Event, StopScope, is_name};
use crate::identity::Hash128;

/// Joins the parts of keys; no name on the wire may hold it.
pub const SEPARATOR: char = '\u{1f}';

/// Whose state a command is about, as in `command.v1.schema.json` and `session-state.v1.schema.json`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKey {
    /// One agent of a session.
    Agent {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        session_id: String,
        agent_id: String,
    },
    /// One fingerprint of a swarm.
    Swarm {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        swarm_id: String,
        fingerprint: Hash128,
    },
    /// One fingerprint of the fleet.
    Fleet {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        fingerprint: Hash128,
    },
    /// Whom an operator stops, whoever and wherever their agents are.
    Stop {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        scope: StopScope,
        /// Of the session, agent, tree or swarm; of a wider scope empty.
        name: String,
    },
    /// Everybody of a group, whatever they call.
    Group {
        /// Name of the tenant; an empty one is none.
        tenant: String,
        group: Group,
        /// Who binds them, as `budget/NAME/day`: each has a row of its own.
        by: String,
    },
}

/// Agents that are bound together, within one tenant. What a name means depends on the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    pub kind: GroupKind,
    /// Empty where the kind is enough: of a tenant.
    pub name: String,
}

/// What the agents of a [`Group`] have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// The id of the agent, in whatever session.
    Agent,
    Session,
    Swarm,
    /// The tenant; the name is empty.
    Tenant,
    /// A label of their events, as `team=search`.
    Label,
    /// The root that started them, itself or through others.
    Tree,
}

impl GroupKind {
    pub const ALL: [Self; 6] = [Self::Agent, Self::Session, Self::Swarm, Self::Tenant, Self::Label, Self::Tree];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Session => "session",
            Self::Swarm => "swarm",
            Self::Tenant => "tenant",
            Self::Label => "label",
            Self::Tree => "tree",
        }
    }

    /// The kind that a word on the wire stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Group {
    /// The group of that kind and name.
    pub fn new(kind: GroupKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }

    /// The group of everybody who belongs to the tenant.
    #[must_use]
    pub const fn tenant() -> Self {
        Self { kind: GroupKind::Tenant, name: String::new() }
    }

    /// Those whose events have a label. None where the value cannot be part of a key.
    #[must_use]
    pub fn label(key: &str, value: &str) -> Option<Self> {
        let name = format!("{key}={value}");
        is_name(&name).then_some(Self { kind: GroupKind::Label, name })
    }

    /// What the row keys of a group of a tenant begin with, without the last separator.
    #[must_use]
    pub fn row_prefix(&self, tenant: &str) -> String {
        joined(&["group", tenant, self.kind.as_str(), &self.name])
    }
}

impl SubjectKey {
    /// The subject of an event.
    #[must_use]
    pub fn of_event(event: &Event<'_>) -> Self {
        let tenant = event.tenant.as_deref().unwrap_or_default();
        if let Some(scope) = event.kind.stop_scope() {
            return Self::stop(scope, tenant, &event.session_id);
        }
        Self::Agent {
            tenant: tenant.to_owned(),
            session_id: event.session_id.clone().into_owned(),
            agent_id: event.agent_id.clone().into_owned(),
        }
    }

    /// Whom a stop of this scope binds, within its tenant by name.
    #[must_use]
    pub fn stop(scope: StopScope, tenant: &str, name: &str) -> Self {
        let name = match scope {
            StopScope::Session | StopScope::Agent | StopScope::Tree | StopScope::Swarm => name,
            StopScope::Tenant | StopScope::All => "",
        };
        Self::Stop { tenant: tenant.to_owned(), scope, name: name.to_owned() }
    }

    /// The subject of the key of a stop's row; `None` for another key.
    #[must_use]
    pub fn of_stop_key(key: &str) -> Option<Self> {
        let mut parts = key.split(SEPARATOR);
        let (Some("stop"), Some(tenant), Some(scope), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        Some(Self::stop(StopScope::from_name(scope)?, tenant, name))
    }

    /// Key of the state row: parts joined by U+001F, so that each key has one writing stage.
    #[must_use]
    pub fn row_key(&self) -> String {
        match self {
            Self::Agent { tenant, session_id, agent_id } => joined(&["agent", tenant, session_id, agent_id]),
            Self::Swarm { tenant, swarm_id, fingerprint } => joined(&["swarm", tenant, swarm_id, &fingerprint.to_string()]),
            Self::Fleet { tenant, fingerprint } => joined(&["fleet", tenant, &fingerprint.to_string()]),
            Self::Group { tenant, group, by } => joined(&[&group.row_prefix(tenant), by]),
            Self::Stop { tenant, scope, name } => joined(&["stop", tenant, scope.as_str(), name]),
        }
    }

    /// Key of the command record: session, swarm, fingerprint, or name of the group; of a stop whom it binds.
    #[must_use]
    pub fn record_key(&self) -> Cow<'_, str> {
        match self {
            Self::Agent { session_id, .. } => Cow::Borrowed(session_id),
            Self::Swarm { swarm_id, .. } => Cow::Borrowed(swarm_id),
            Self::Fleet { fingerprint, .. } => Cow::Owned(fingerprint.to_string()),
            Self::Stop { tenant, scope, name } => Cow::Borrowed(scope.record_key(tenant, name)),
            Self::Group { tenant, group, .. } if group.name.is_empty() => Cow::Borrowed(tenant),
            Self::Group { group, .. } => Cow::Borrowed(&group.name),
        }
    }

    /// Key of a session in the store: tenant, session, agent joined by U+001F. Agents of one session are neighbours.
    #[must_use]
    pub fn session_key(tenant: Option<&str>, session_id: &str, agent_id: &str) -> String {
        joined(&[tenant.unwrap_or_default(), session_id, agent_id])
    }
}

/// Parts with U+001F between them, in a text that is made once and never grows.
pub fn joined(parts: &[&str]) -> String {
    let mut key = String::with_capacity(parts.iter().map(|part| part.len() + SEPARATOR.len_utf8()).sum());
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            key.push(SEPARATOR);
        }
        key.push_str(part);
    }
    key
}
