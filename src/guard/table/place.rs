//! What binds agents that are meant together. That about one call is found by its fingerprint, since there may be thousands.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::engine::SubjectKey;
use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash128, IdentityRecipe};

use crate::{agent::Agent, table::matching::Call, wire::verdict::Verdict};

/// What the verdicts of a subject are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A loop of one agent of a session, whatever it calls next.
    Own,
    /// A call that many make.
    Shared,
    /// All that a group calls, as a budget binds it.
    Group,
    /// All that agents do, by the word of an operator.
    Stop,
}

impl Class {
    pub(crate) const fn of(subject: &SubjectKey) -> Self {
        match subject {
            SubjectKey::Agent { .. } => Self::Own,
            SubjectKey::Swarm { .. } | SubjectKey::Fleet { .. } => Self::Shared,
            SubjectKey::Group { .. } => Self::Group,
            SubjectKey::Stop(_) => Self::Stop,
        }
    }

    /// Whether it comes from the history of many: only a call shows whether it binds.
    pub(crate) const fn is_of_many(self) -> bool {
        matches!(self, Self::Shared | Self::Group)
    }
}

/// A verdict, by what it is about.
pub(crate) type Bound = (Class, Arc<Verdict>);
/// Which calls a fingerprint is made of, and how.
type Form = (Option<String>, IdentityRecipe);

/// The verdicts that bind a session, a swarm, a tenant or any others that are meant together.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Those that no fingerprint finds: each is looked at.
    listed: Vec<Bound>,
    by_print: BTreeMap<Hash128, Vec<Bound>>,
    /// Each form with how many verdicts have it: a call is hashed once for each.
    forms: Vec<(Form, usize)>,
}

impl Place {
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.by_print.is_empty()
    }

    pub(crate) fn add(&mut self, class: Class, verdict: &Arc<Verdict>) {
        let bound = (class, Arc::clone(verdict));
        let Some((print, form)) = form(class, verdict) else {
            self.listed.push(bound);
            return;
        };
        match self.forms.iter_mut().find(|(known, _)| *known == form) {
            Some((_, count)) => *count += 1,
            None => self.forms.push((form, 1)),
        }
        self.by_print.entry(print).or_default().push(bound);
    }

    pub(crate) fn remove(&mut self, class: Class, verdict: &Arc<Verdict>) {
        let Some((print, form)) = form(class, verdict) else {
            self.listed.retain(|(_, held)| !Arc::ptr_eq(held, verdict));
            return;
        };
        let Some(held) = self.by_print.get_mut(&print) else { return };
        let before = held.len();
        held.retain(|(_, held)| !Arc::ptr_eq(held, verdict));
        let removed = before - held.len();
        if held.is_empty() {
            self.by_print.remove(&print);
        }
        for (known, count) in &mut self.forms {
            if *known == form {
                *count = count.saturating_sub(removed);
            }
        }
        self.forms.retain(|(_, count)| *count > 0);
    }

    /// Those in force that bind an agent, and its call where there is one; nudges about its tool among them.
    pub(crate) fn binding(&self, agent: &Agent, call: Option<&Call>, now: EventTime, out: &mut Vec<Bound>) {
        let is_meant = |verdict: &Verdict| {
            let only = &verdict.scope.only;
            let is_agent =
                |(session_id, agent_id): &(String, String)| *session_id == agent.session_id && *agent_id == agent.agent_id;
            verdict.expires_at > now && (only.is_empty() || only.iter().any(is_agent))
        };
        let binds = |(class, verdict): &&Bound| {
            let is_bound = match class {
                Class::Own => verdict.agent_id.as_ref() == Some(&agent.agent_id),
                Class::Shared => call.is_some_and(|call| verdict.scope.tool.as_ref() == Some(&call.tool)),
                Class::Group => call.is_some_and(|call| verdict.scope.has_tool(&call.tool)),
                Class::Stop => true,
            };
            is_bound && is_meant(verdict)
        };
        out.extend(self.listed.iter().filter(binds).cloned());
        let Some(call) = call else { return };
        for ((tool, recipe), _) in &self.forms {
            if tool.as_deref().is_some_and(|tool| tool != call.tool) {
                continue;
            }
            let held = call.fingerprint(recipe).and_then(|print| self.by_print.get(&print));
            let has_form = |(_, verdict): &&Bound| {
                let own = verdict.scope.fingerprint.as_ref().map(|(_, own)| own);
                own == Some(recipe) && verdict.scope.tool == *tool && is_meant(verdict)
            };
            out.extend(held.into_iter().flatten().filter(has_form).cloned());
        }
    }

    /// What a verdict that was found here is about; none where it is held no more.
    pub(crate) fn class_of(&self, verdict: &Verdict) -> Option<Class> {
        let of_print = verdict.scope.fingerprint.as_ref().and_then(|(print, _)| self.by_print.get(print));
        let mut held = self.listed.iter().chain(of_print.into_iter().flatten());
        held.find(|(_, held)| held.command_id == verdict.command_id).map(|(class, _)| *class)
    }
}

/// Fingerprint and form of a verdict about a call of many, where calls can be found by them.
fn form(class: Class, verdict: &Verdict) -> Option<(Hash128, Form)> {
    let (print, recipe) = verdict.scope.fingerprint.as_ref().filter(|_| class.is_of_many())?;
    (*recipe != IdentityRecipe::Opaque).then(|| (*print, (verdict.scope.tool.clone(), recipe.clone())))
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::joined;
    use loopwarden_core::event::{Content, RecordMeta, decode};
    use loopwarden_core::whom::{Kind, Whom};
    use serde_json::json;

    use super::*;
    use crate::table::rows::Rows;
    use crate::wire::verdict::tests::{command, row};
    use crate::wire::verdict::{read_command, read_row};

    fn now() -> EventTime {
        EventTime::parse_rfc3339("2026-01-01T00:01:00Z").unwrap()
    }

    #[test]
    fn a_group_is_bound_in_all_that_its_agents_call_and_nobody_else_is() {
        let group = |kind: &str, name: &str, by: &str| {
            let mut command = command("g", "block", 1);
            command["scope"] = json!({ "kind": kind, "name": name, "by": by });
            command["swarm_id"] = name.into();
            command["session_id"] = name.into();
            command
        };
        let event = br#"{"id":"1","kind":"tool_call","session_id":"s","tool":"t","swarm_id":"w","labels":{"team":"a"},"agent":{"id":"x"}}"#;
        let meta = RecordMeta::without_place(now(), 1_000);
        let agent = Agent::of(&decode(Some(event), &meta).unwrap());
        let call = Call::new("t", &Content::Absent);
        let bound = |rows: &Rows, agent: &Agent| {
            let mut out = Vec::new();
            rows.binding(agent, Some(&call), now(), &mut out);
            out
        };
        for (kind, name, is_bound) in [
            ("tenant", "", true),
            ("agent", "x", true),
            ("session", "s", true),
            ("swarm", "w", true),
            ("label", "team=a", true),
            ("label", "team=b", false),
            ("tree", "s", true),
            ("tree", "x", true),
            ("tree", "y", false),
            ("agent", "y", false),
            ("galaxy", "x", false),
        ] {
            let mut rows = Rows::default();
            let command = group(kind, name, "budget/b/day");
            if let Some(read) = read_command(command.to_string().as_bytes()) {
                rows.command(read, now());
            }
            let found = bound(&rows, &agent);
            assert_eq!(found.len(), usize::from(is_bound), "{kind} {name}");
            assert!(found.iter().all(|(_, verdict)| rows.class_of(&agent, verdict) == Some(Class::Group)), "{kind}");
            // Its row binds the same, and takes it away.
            let key = SubjectKey::of_row_key(&joined(&["group", "", kind, name, "budget/b/day"]));
            assert_eq!(key.is_some(), kind != "galaxy");
            let Some(key) = key else { continue };
            let mut rows = Rows::default();
            rows.row(key.clone(), read_row(row(1, std::slice::from_ref(&command)).as_bytes()), now());
            assert_eq!(bound(&rows, &agent).len(), usize::from(is_bound), "{kind} {name}");
            rows.row(key, None, now());
            assert_eq!(bound(&rows, &agent).len(), 0);
        }
    }

    #[test]
    fn a_row_of_a_group_that_was_forgotten_is_missing_for_its_agents() {
        let mut rows = Rows::default();
        let whom = Whom::new("", Kind::Agent, "main");
        rows.was_not_read(&SubjectKey::Group { whom, by: "budget/b/day".to_owned() });
        let beginning = joined(&["group", "", "agent", "main", ""]);
        assert_eq!(rows.missing(&Agent::named("", "s", "main", "w"), now()), [beginning]);
        assert_eq!(rows.missing(&Agent::named("", "s", "other", "w"), now()), [""; 0]);
    }
}
