//! Whose state is meant: one agent of a session, one fingerprint of a swarm, one of the fleet, a whole group of agents, those that an operator
//! stops.

use std::borrow::Cow;

use crate::event::Event;
use crate::identity::Hash128;
use crate::whom::{Kind, Whom};

/// Joins the parts of keys; no name on the wire may hold it.
pub const SEPARATOR: char = '\u{1f}';

/// What binds those that an operator stops: beside it stand `budget/NAME/day` and `tree`, each with a row of its own.
pub const BY_STOP: &str = "stop";

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
    /// Those that an operator stops, whoever and wherever their agents are.
    Stop(Whom),
    /// Agents that are meant together, whatever they call.
    Group {
        whom: Whom,
        /// What binds them, as `budget/NAME/day`: each has a row of its own.
        by: String,
    },
}

impl SubjectKey {
    /// The subject of an event.
    #[must_use]
    pub fn of_event(event: &Event<'_>) -> Self {
        let tenant = event.tenant.as_deref().unwrap_or_default();
        if let Some(whom) = event.stopped() {
            return Self::Stop(whom);
        }
        Self::Agent {
            tenant: tenant.to_owned(),
            session_id: event.session_id.clone().into_owned(),
            agent_id: event.agent_id.clone().into_owned(),
        }
    }

    /// The subject of the key of a stop's row; `None` for another key.
    #[must_use]
    pub fn of_stop_key(key: &str) -> Option<Self> {
        let mut parts = key.split(SEPARATOR);
        let (Some(BY_STOP), Some(tenant), Some(scope), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let kind = Kind::from_name(scope).filter(|kind| kind.can_stop())?;
        Some(Self::Stop(Whom::new(tenant, kind, name)))
    }

    /// Key of the state row: parts joined by U+001F, so that each key has one writing stage.
    #[must_use]
    pub fn row_key(&self) -> String {
        match self {
            Self::Agent { tenant, session_id, agent_id } => joined(&["agent", tenant, session_id, agent_id]),
            Self::Swarm { tenant, swarm_id, fingerprint } => joined(&["swarm", tenant, swarm_id, &fingerprint.to_string()]),
            Self::Fleet { tenant, fingerprint } => joined(&["fleet", tenant, &fingerprint.to_string()]),
            Self::Group { whom, by } => joined(&[&Self::group_prefix(whom), by]),
            Self::Stop(whom) => joined(&[BY_STOP, &whom.tenant, whom.kind.as_str(), &whom.name]),
        }
    }

    /// What the keys of all rows of a group begin with, without the last separator.
    #[must_use]
    pub fn group_prefix(whom: &Whom) -> String {
        joined(&["group", &whom.tenant, whom.kind.as_str(), &whom.name])
    }

    /// Key of the command record: session, swarm, fingerprint, or name of the group; of a stop whom it binds.
    #[must_use]
    pub fn record_key(&self) -> Cow<'_, str> {
        match self {
            Self::Agent { session_id, .. } => Cow::Borrowed(session_id),
            Self::Swarm { swarm_id, .. } => Cow::Borrowed(swarm_id),
            Self::Fleet { fingerprint, .. } => Cow::Owned(fingerprint.to_string()),
            Self::Stop(whom) | Self::Group { whom, .. } => Cow::Borrowed(whom.record_key()),
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
