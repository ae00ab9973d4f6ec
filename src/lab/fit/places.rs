//! Where events stand among those of their session, and of their agent: by these places labels name them.

use std::collections::BTreeMap;

use loopwarden_core::event::Event;

/// Where an event stands, from 0: its `seq`, or what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct EventPlace {
    /// Among the events of its session.
    pub(super) index: u64,
    /// Among those of its agent.
    pub(super) in_agent: u64,
}

/// Events so far, by tenant and session, and of each agent there.
#[derive(Debug, Default)]
pub(super) struct Places {
    sessions: BTreeMap<(String, String), u64>,
    agents: BTreeMap<(String, String, String), u64>,
}

impl Places {
    /// Counts an event, in the order of the input.
    pub(super) fn note(&mut self, event: &Event<'_>) -> EventPlace {
        let tenant = event.tenant.as_deref().unwrap_or_default().to_owned();
        let session = (tenant, event.session_id.to_string());
        let agent = (session.0.clone(), session.1.clone(), event.agent_id.to_string());
        let [index, in_agent] = [self.sessions.entry(session).or_default(), self.agents.entry(agent).or_default()].map(|seen| {
            *seen += 1;
            event.seq.unwrap_or(*seen - 1)
        });
        EventPlace { index, in_agent }
    }
}
