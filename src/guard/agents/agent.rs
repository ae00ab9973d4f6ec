//! Whose event a check brings.

use std::borrow::Cow;

use loopwarden_core::engine::{SubjectKey, joined};
use loopwarden_core::{event::Event, whom::Who};

/// An agent of a session, as its event names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Empty where the event names no tenant.
    pub tenant: String,
    /// The session, which other agents may share.
    pub session_id: String,
    /// `main` where the event names none.
    pub agent_id: String,
    /// The run that its session shares.
    pub swarm_id: Option<String>,
    /// The tree of agents that it has a place in; none: its session is a tree by itself.
    tree: Option<String>,
    labels: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// Tenant, session and agent in one text.
    pub(crate) key: String,
}

impl Agent {
    /// The agent that sent an event.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Self {
        Self::new(&event.who())
    }

    pub(crate) fn new(who: &Who<'_>) -> Self {
        let owned = |text: &Cow<'_, str>| Cow::Owned(text.to_string());
        let labels = who.labels.unwrap_or_default();
        Self {
            tenant: who.tenant.to_owned(),
            session_id: who.session_id.to_owned(),
            agent_id: who.agent_id.to_owned(),
            swarm_id: Some(who.swarm_id).filter(|swarm_id| !swarm_id.is_empty()).map(str::to_owned),
            tree: who.tree.map(str::to_owned),
            labels: labels.iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            key: SubjectKey::session_key(Some(who.tenant), who.session_id, who.agent_id),
        }
    }

    /// All that it may be meant by.
    pub(crate) fn who(&self) -> Who<'_> {
        Who {
            tenant: &self.tenant,
            session_id: &self.session_id,
            agent_id: &self.agent_id,
            swarm_id: self.swarm_id.as_deref().unwrap_or_default(),
            tree: self.tree.as_deref(),
            labels: Some(&self.labels),
        }
    }

    /// Tenant and session in one text.
    pub(crate) fn session_key(&self) -> String {
        joined(&[&self.tenant, &self.session_id])
    }
}

#[cfg(test)]
impl Agent {
    /// An agent by its names; those that are empty it has none of.
    pub(crate) fn named(tenant: &str, session_id: &str, agent_id: &str, swarm_id: &str) -> Self {
        Self::new(&Who { tenant, session_id, agent_id, swarm_id, ..Who::default() })
    }
}
