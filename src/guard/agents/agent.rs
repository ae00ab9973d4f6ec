//! Whose event a check brings.

use loopwarden_core::engine::{Group, GroupKind, SubjectKey, joined, trees_of};
use loopwarden_core::event::Event;

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
    /// The tree of agents that it belongs to, by its event; none: that of its session.
    tree: Option<String>,
    /// Groups by the labels of its event.
    labels: Vec<Group>,
    /// Tenant, session and agent in one text.
    pub(crate) key: String,
}

impl Agent {
    /// The agent that sent an event.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Self {
        let swarm_id = event.swarm_id.as_deref();
        let labels = event.labels.iter().filter_map(|(key, value)| Group::label(key, value)).collect();
        let agent = Self::new(event.tenant.as_deref().unwrap_or_default(), &event.session_id, &event.agent_id, swarm_id);
        let tree = Some(event.tree()).filter(|tree| *tree != event.session_id).map(str::to_owned);
        Self { tree, labels, ..agent }
    }

    /// The trees whose verdicts bind it.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &str> {
        trees_of(self.tree.as_deref().unwrap_or(&self.session_id), &self.agent_id)
    }

    pub(crate) fn new(tenant: &str, session_id: &str, agent_id: &str, swarm_id: Option<&str>) -> Self {
        Self {
            tenant: tenant.to_owned(),
            session_id: session_id.to_owned(),
            agent_id: agent_id.to_owned(),
            swarm_id: swarm_id.map(str::to_owned),
            tree: None,
            labels: Vec::new(),
            key: SubjectKey::session_key(Some(tenant), session_id, agent_id),
        }
    }

    /// The groups that it belongs to.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let named = [(GroupKind::Agent, &self.agent_id), (GroupKind::Session, &self.session_id)];
        let named = named.into_iter().chain(self.swarm_id.as_ref().map(|swarm_id| (GroupKind::Swarm, swarm_id)));
        let named = named.map(|(kind, name)| Group::new(kind, name.as_str()));
        let trees = self.trees().map(|tree| Group::new(GroupKind::Tree, tree));
        named.chain([Group::tenant()]).chain(trees).chain(self.labels.iter().cloned()).collect()
    }

    /// Tenant and session in one text.
    pub(crate) fn session_key(&self) -> String {
        joined(&[&self.tenant, &self.session_id])
    }
}
