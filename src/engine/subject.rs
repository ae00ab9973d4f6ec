//! Whose state is meant: one agent of a session, one fingerprint of a swarm, one of the fleet.

use crate::event::Event;
use crate::identity::Hash128;

/// Joins the parts of keys; no name on the wire may hold it.
pub const SEPARATOR: char = '\u{1f}';

/// A subject (`wire.md` sections 3 and 4).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKey {
    /// One agent of a session.
    Agent {
        /// Tenant; empty = none.
        tenant: String,
        /// Session.
        session_id: String,
        /// Agent.
        agent_id: String,
    },
    /// One fingerprint of a swarm.
    Swarm {
        /// Tenant; empty = none.
        tenant: String,
        /// Swarm.
        swarm_id: String,
        /// Fingerprint.
        fingerprint: Hash128,
    },
    /// One fingerprint of the fleet.
    Fleet {
        /// Tenant; empty = none.
        tenant: String,
        /// Fingerprint.
        fingerprint: Hash128,
    },
}

impl SubjectKey {
    /// The subject of an event.
    #[must_use]
    pub fn of_event(event: &Event<'_>) -> Self {
        Self::Agent {
            tenant: event.tenant.as_deref().unwrap_or_default().to_owned(),
            session_id: event.session_id.clone().into_owned(),
            agent_id: event.agent_id.clone().into_owned(),
        }
    }

    /// Key of the state row: parts joined by U+001F, so that each key has one writing stage.
    #[must_use]
    pub fn row_key(&self) -> String {
        match self {
            Self::Agent { tenant, session_id, agent_id } => {
                format!("agent{SEPARATOR}{tenant}{SEPARATOR}{session_id}{SEPARATOR}{agent_id}")
            }
            Self::Swarm { tenant, swarm_id, fingerprint } => {
                format!("swarm{SEPARATOR}{tenant}{SEPARATOR}{swarm_id}{SEPARATOR}{fingerprint}")
            }
            Self::Fleet { tenant, fingerprint } => format!("fleet{SEPARATOR}{tenant}{SEPARATOR}{fingerprint}"),
        }
    }

    /// Key of the command record: session, swarm, or fingerprint.
    #[must_use]
    pub fn record_key(&self) -> String {
        match self {
            Self::Agent { session_id, .. } => session_id.clone(),
            Self::Swarm { swarm_id, .. } => swarm_id.clone(),
            Self::Fleet { fingerprint, .. } => fingerprint.to_string(),
        }
    }

    /// Key of a session in the store: tenant, session, agent joined by U+001F. Agents of one session are neighbours.
    #[must_use]
    pub fn session_key(tenant: Option<&str>, session_id: &str, agent_id: &str) -> String {
        let tenant = tenant.unwrap_or_default();
        let mut key = String::with_capacity(tenant.len() + session_id.len() + agent_id.len() + 2);
        key.push_str(tenant);
        key.push(SEPARATOR);
        key.push_str(session_id);
        key.push(SEPARATOR);
        key.push_str(agent_id);
        key
    }
}
