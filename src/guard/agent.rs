//! Whose event a check brings.

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::Event;
use loopwarden_core::whom::{Who, Whom};

/// An agent of a session, as its event names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Empty where the event names no tenant.
    pub tenant: String,
    /// The session, which other agents may share.
    pub session_id: String,
    /// `main` where the event names none.
    pub agent_id: String,
    /// All that it may be meant by, the narrowest first.
    pub(crate) meant: Vec<Whom>,
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
        Self {
            tenant: who.tenant.to_owned(),
            session_id: who.session_id.to_owned(),
            agent_id: who.agent_id.to_owned(),
            meant: who.all().collect(),
            key: SubjectKey::session_key(Some(who.tenant), who.session_id, who.agent_id),
        }
    }
}

#[cfg(test)]
impl Agent {
    /// An agent by its names; those that are empty it has none of.
    pub(crate) fn named(tenant: &str, session_id: &str, agent_id: &str, swarm_id: &str) -> Self {
        Self::new(&Who { tenant, session_id, agent_id, swarm_id, ..Who::default() })
    }
}
