//! Where the events of labelled stretches lie in their sessions: by index from 0, of the session and of the agent.

use std::collections::BTreeMap;

use loopwarden_core::event::Event;

use crate::report::{Ending, Label, Said};

/// Index of each event inside a labelled stretch, and which of the sessions that somebody knows about were there at all. Grows with
/// the stretches, not with the input.
#[derive(Debug, Clone, Default)]
pub struct EventIndex {
    /// By tenant, then by session.
    tenants: BTreeMap<String, BTreeMap<String, Known>>,
}

/// A session that somebody knows about.
#[derive(Debug, Clone, Default)]
struct Known {
    stretches: Vec<Stretch>,
    /// Its events so far.
    seen: u64,
    /// Those of the agents that labels name.
    seen_of: BTreeMap<String, u64>,
    events: BTreeMap<String, Placed>,
}

#[derive(Debug, Clone)]
struct Stretch {
    agent: Option<String>,
    first: u64,
    last: u64,
}

#[derive(Debug, Clone)]
struct Placed {
    agent: String,
    in_session: u64,
    in_agent: u64,
}

impl EventIndex {
    /// An index that will know these sessions.
    #[must_use]
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

    fn known(&mut self, tenant: &str, session: &str) -> &mut Known {
        self.tenants.entry(tenant.to_owned()).or_default().entry(session.to_owned()).or_default()
    }

    /// Notes an event, if its session is one of them.
    pub fn note_event(&mut self, event: &Event<'_>) {
        if !self.tenants.is_empty() {
            let whose = (event.tenant.as_deref().unwrap_or_default(), &*event.session_id, &*event.agent_id);
            self.note(whose, &event.id, event.seq);
        }
    }

    /// Notes an event of a tenant, session and agent. Its index is its `seq`, else how many came before.
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
            known.events.entry(id.to_owned()).or_insert_with(|| Placed { agent: agent.to_owned(), in_session, in_agent });
        }
    }

    /// Adds what another index has seen.
    pub fn add(&mut self, other: Self) {
        for (tenant, sessions) in other.tenants {
            for (session, more) in sessions {
                let known = self.known(&tenant, &session);
                known.seen += more.seen;
                known.events.extend(more.events);
            }
        }
    }

    /// The index of the event that caused a command, if it lies inside the labelled stretch.
    pub(super) fn inside(&self, label: &Label, said: &Said) -> Option<u64> {
        let placed = self.tenants.get(&label.tenant)?.get(&label.session)?.events.get(said.event_id.as_ref()?)?;
        place(label, placed)
    }

    /// Whether the labelled stretch holds an event of its session, and of its agent.
    pub(super) fn has_event_in(&self, label: &Label) -> bool {
        let known = self.tenants.get(&label.tenant).and_then(|sessions| sessions.get(&label.session));
        let mut placed = known.into_iter().flat_map(|known| known.events.values());
        placed.any(|placed| place(label, placed).is_some())
    }

    /// Whether the input held an event of the session.
    pub(super) fn has_seen(&self, tenant: &str, session: &str) -> bool {
        self.tenants.get(tenant).and_then(|sessions| sessions.get(session)).is_some_and(|known| known.seen > 0)
    }
}

/// The index of an event, if it lies inside the labelled stretch.
fn place(label: &Label, placed: &Placed) -> Option<u64> {
    let at = match &label.agent {
        None => placed.in_session,
        Some(agent) if *agent == placed.agent => placed.in_agent,
        Some(_) => return None,
    };
    (label.first..=label.last).contains(&at).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Deed;
    use crate::report::said::tests::said;

    #[test]
    fn the_counter_of_the_producer_is_the_index_where_there_is_one_and_only_stretches_are_kept() {
        let label = Label::parse(r#"{"session":"a","label":"loop","first_event_index":7,"last_event_index":8}"#).unwrap();
        let mut index = EventIndex::of(std::slice::from_ref(&label), &[]);
        index.note(("", "a", "main"), "x", Some(7));
        index.note(("", "other", "main"), "x", Some(8));
        for at in 0..1_000 {
            index.note(("", "a", "main"), &format!("e{at}"), Some(100 + at));
        }
        let by_x = Said { event_id: Some("x".to_owned()), ..said("a", "stuck", Deed::Nudge) };
        assert_eq!(index.inside(&label, &by_x), Some(7));
        assert_eq!(index.tenants[""]["a"].events.len(), 1, "what no label covers is not kept");
    }
}
