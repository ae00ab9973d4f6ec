//! Who is meant by a command or a row: as it is written, and in words for people.

use serde::Serialize;

use crate::engine::{BY_STOP, SubjectKey};
use crate::whom::Kind;

/// `subject` of a row.
#[derive(Debug, Default, Serialize)]
pub struct Subject<'a> {
    /// Word of a [`Kind`]; that and the names are as in the scope of a command.
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swarm_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl<'a> Subject<'a> {
    /// What names a subject, as a row has it.
    #[must_use]
    pub fn of(subject: &'a SubjectKey) -> Self {
        match subject {
            SubjectKey::Agent { tenant, session_id, agent_id } => {
                Self { agent_id: Some(agent_id), ..Self::named(tenant, Kind::Session, session_id) }
            }
            SubjectKey::Swarm { tenant, swarm_id, fingerprint } => {
                Self { fingerprint: Some(fingerprint.to_string()), ..Self::named(tenant, Kind::Swarm, swarm_id) }
            }
            SubjectKey::Fleet { tenant, fingerprint } => {
                Self { fingerprint: Some(fingerprint.to_string()), ..Self::named(tenant, Kind::Tenant, "") }
            }
            SubjectKey::Stop(whom) => Self { by: Some(BY_STOP), ..Self::named(&whom.tenant, whom.kind, &whom.name) },
            SubjectKey::Group { whom, by } => Self { by: Some(by), ..Self::named(&whom.tenant, whom.kind, &whom.name) },
        }
    }

    /// Those of a kind and name.
    fn named(tenant: &'a str, kind: Kind, name: &'a str) -> Self {
        let named = Self { kind: kind.as_str(), tenant, ..Self::default() };
        match kind {
            Kind::Session => Self { session_id: Some(name), ..named },
            Kind::Swarm => Self { swarm_id: Some(name), ..named },
            _ => Self { name: Some(name).filter(|name| !name.is_empty()), ..named },
        }
    }
}

/// Whom a command binds that names no session. `text` gives what stands at a pointer of the command, as it may be shown; empty where nothing
/// does.
#[must_use]
pub fn whom(text: impl Fn(&str) -> String) -> String {
    let kind = text("/scope/kind");
    match (Kind::from_name(&kind), text("/tenant")) {
        (Some(Kind::All), _) => "everybody".to_owned(),
        // Agents that name no tenant are all there are, where no agent names one.
        (Some(Kind::Tenant), tenant) if tenant.is_empty() => "the fleet".to_owned(),
        (Some(Kind::Tenant), tenant) => format!("{kind} {tenant}"),
        (Some(Kind::Swarm), _) => format!("{kind} {}", text("/swarm_id")),
        _ => format!("{kind} {}", text("/scope/name")),
    }
}
