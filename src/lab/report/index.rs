//! Places of events in labelled stretches: their index from 0, among the events of the session and of the agent.

use std::collections::BTreeMap;

use loopwarden_core::event::Event;

use crate::report::PublishedCommand;
use crate::report::labels::{Ending, Label};

/// The events of labelled stretches, and which of the known sessions occurred. Its size depends on the stretches, not on the input.
#[derive(Debug, Clone, Default)]
pub struct EventIndex {
    /// By tenant, then by session.
    tenants: BTreeMap<String, BTreeMap<String, KnownSession>>,
}

/// A session with a label or an ending.
#[derive(Debug, Clone, Default)]
struct KnownSession {
    stretches: Vec<Stretch>,
    seen: u64,
    /// Those of the agents that labels name.
    seen_of: BTreeMap<String, u64>,
    events: BTreeMap<String, EventPlace>,
}

#[derive(Debug, Clone)]
struct Stretch {
    agent: Option<String>,
    first: u64,
    last: u64,
}

#[derive(Debug, Clone)]
struct EventPlace {
    agent: String,
    in_session: u64,
    in_agent: u64,
}

impl EventIndex {
    pub fn of(labels: &[Label], endings: &[Ending]) -> Self {
        let mut index = Self::default();
        for label in labels {
            let known = index.known(&label.tenant, &label.session);
            known.stretches.push(Stretch { agent: label.agent.clone(), first: label.first, last: label.last });
            known.seen_of.extend(label.agent.clone().map(|agent| (agent, 0)));
        }
        for ending in endings {
            index.known(&ending.tenant, &ending.session);
        }
        index
    }

    fn known(&mut self, tenant: &str, session: &str) -> &mut KnownSession {
        self.tenants.entry(tenant.to_owned()).or_default().entry(session.to_owned()).or_default()
    }

    fn get(&self, tenant: &str, session: &str) -> Option<&KnownSession> {
        self.tenants.get(tenant)?.get(session)
    }

    pub(super) fn note_event(&mut self, event: &Event<'_>) {
        if !self.tenants.is_empty() {
            let whose = (event.tenant.as_deref().unwrap_or_default(), &*event.session_id, &*event.agent_id);
            self.note(whose, &event.id, event.seq);
        }
    }

    /// Notes an event of a tenant, session and agent. Its index is its `seq`, or else the number of events before it.
    pub(super) fn note(&mut self, (tenant, session, agent): (&str, &str, &str), id: &str, seq: Option<u64>) {
        let Some(known) = self.tenants.get_mut(tenant).and_then(|sessions| sessions.get_mut(session)) else { return };
        let seen_of = known.seen_of.get_mut(agent);
        let in_session = seq.unwrap_or(known.seen);
        let in_agent = seq.or(seen_of.as_deref().copied()).unwrap_or_default();
        known.seen += 1;
        if let Some(seen_of) = seen_of {
            *seen_of += 1;
        }
        let is_inside = known.stretches.iter().any(|stretch| match &stretch.agent {
            None => (stretch.first..=stretch.last).contains(&in_session),
            Some(named) => named == agent && (stretch.first..=stretch.last).contains(&in_agent),
        });
        if is_inside {
            known.events.entry(id.to_owned()).or_insert_with(|| EventPlace { agent: agent.to_owned(), in_session, in_agent });
        }
    }

    /// Adds the events of another part of the input.
    pub(super) fn add(&mut self, other: Self) {
        for (tenant, sessions) in other.tenants {
            for (session, more) in sessions {
                let known = self.known(&tenant, &session);
                known.seen += more.seen;
                known.events.extend(more.events);
            }
        }
    }

    /// The index of the event that caused a command, if it lies inside the labelled stretch.
    pub(super) fn inside(&self, label: &Label, command: &PublishedCommand) -> Option<u64> {
        let known = self.get(&label.tenant, &label.session)?;
        index_in(label, known.events.get(command.event_id.as_ref()?)?)
    }

    /// Whether the labelled stretch holds an event of its session and agent.
    pub(super) fn has_event_in(&self, label: &Label) -> bool {
        let known = self.get(&label.tenant, &label.session);
        known.is_some_and(|known| known.events.values().any(|event| index_in(label, event).is_some()))
    }

    /// Whether the input holds an event of the session.
    pub(super) fn has_seen(&self, tenant: &str, session: &str) -> bool {
        self.get(tenant, session).is_some_and(|known| known.seen > 0)
    }
}

/// The index of an event, if it lies inside the labelled stretch.
fn index_in(label: &Label, event: &EventPlace) -> Option<u64> {
    let at = match &label.agent {
        None => event.in_session,
        Some(agent) if *agent == event.agent => event.in_agent,
        Some(_) => return None,
    };
    (label.first..=label.last).contains(&at).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::CommandKind, report::command::tests::command};

    #[test]
    fn the_counter_of_the_producer_is_the_index_where_there_is_one_and_only_stretches_are_kept() {
        let label = Label::parse(r#"{"session":"a","label":"loop","first_event_index":7,"last_event_index":8}"#).unwrap();
        let mut index = EventIndex::of(std::slice::from_ref(&label), &[]);
        index.note(("", "a", "main"), "x", Some(7));
        index.note(("", "other", "main"), "x", Some(8));
        for at in 0..1_000 {
            index.note(("", "a", "main"), &format!("e{at}"), Some(100 + at));
        }
        let by_x = PublishedCommand { event_id: Some("x".to_owned()), ..command("a", "stuck", CommandKind::Nudge) };
        assert_eq!(index.inside(&label, &by_x), Some(7));
        assert_eq!(index.tenants[""]["a"].events.len(), 1, "what no label covers is not kept");
    }
}
