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

    /// The subject of the key of a state row; `None` for a key of no subject.
    #[must_use]
    pub fn of_row_key(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split(SEPARATOR).collect();
        Some(match *parts.as_slice() {
            ["agent", tenant, session_id, agent_id] => {
                Self::Agent { tenant: tenant.into(), session_id: session_id.into(), agent_id: agent_id.into() }
            }
            ["swarm", tenant, swarm_id, print] => {
                Self::Swarm { tenant: tenant.into(), swarm_id: swarm_id.into(), fingerprint: Hash128::from_hex(print)? }
            }
            ["fleet", tenant, print] => Self::Fleet { tenant: tenant.into(), fingerprint: Hash128::from_hex(print)? },
            ["group", tenant, kind, name, by] => {
                let kind = Kind::from_name(kind).filter(|kind| kind.is_in_tenant())?;
                Self::Group { whom: Whom::new(tenant, kind, name), by: by.into() }
            }
            [BY_STOP, tenant, kind, name] => {
                let kind = Kind::from_name(kind).filter(|kind| kind.can_stop())?;
                Self::Stop(Whom::new(tenant, kind, name))
            }
            _ => return None,
        })
    }

    /// Those among whom what is in force for it binds somebody: of an agent its session, of a fingerprint the swarm or the tenant.
    #[must_use]
    pub fn whom(&self) -> Whom {
        match self {
            Self::Agent { tenant, session_id, .. } => Whom::new(tenant, Kind::Session, session_id),
            Self::Swarm { tenant, swarm_id, .. } => Whom::new(tenant, Kind::Swarm, swarm_id),
            Self::Fleet { tenant, .. } => Whom::new(tenant, Kind::Tenant, ""),
            Self::Stop(whom) | Self::Group { whom, .. } => whom.clone(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_row_gives_back_its_subject() {
        let whom = |kind| Whom::new("t", kind, "n");
        let (tenant, fingerprint) = ("t".to_owned(), Hash128(7));
        for (subject, kind) in [
            (SubjectKey::Agent { tenant: tenant.clone(), session_id: "n".into(), agent_id: "a".into() }, Kind::Session),
            (SubjectKey::Swarm { tenant: tenant.clone(), swarm_id: "n".into(), fingerprint }, Kind::Swarm),
            (SubjectKey::Fleet { tenant, fingerprint }, Kind::Tenant),
            (SubjectKey::Group { whom: whom(Kind::Label), by: "budget/b/day".into() }, Kind::Label),
            (SubjectKey::Stop(whom(Kind::Tree)), Kind::Tree),
        ] {
            assert_eq!(subject.whom(), whom(kind));
            assert_eq!(SubjectKey::of_row_key(&subject.row_key()), Some(subject));
        }
        for other in [
            "",
            "agent\u{1f}t\u{1f}s",
            "swarm\u{1f}t\u{1f}w\u{1f}print",
            "group\u{1f}t\u{1f}all\u{1f}\u{1f}b",
            "stop\u{1f}t\u{1f}label\u{1f}a=b",
        ] {
            assert_eq!(SubjectKey::of_row_key(other), None, "{other}");
        }
    }
}
