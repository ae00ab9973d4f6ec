//! Verdicts that bind a swarm, the fleet or any other group: those of one call are found by its fingerprint, since there may be thousands.

use std::{collections::BTreeMap, sync::Arc};

use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash128, IdentityRecipe};

use crate::{agents::agent::Agent, table::matching::Call, wire::verdict::Verdict};

/// Which calls a fingerprint is made of, and how.
type Form = (Option<String>, IdentityRecipe);

/// The verdicts of one swarm, of the fleet of one tenant, or of a group of agents.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Each form with how many verdicts have it: a call is hashed once for each.
    forms: Vec<(Form, usize)>,
    by_print: BTreeMap<Hash128, Vec<Arc<Verdict>>>,
    /// Those whose calls cannot be found by a fingerprint: nudges about a tool, and what binds a group in all that it calls.
    loose: Vec<Arc<Verdict>>,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_print.is_empty() && self.loose.is_empty()
    }

    pub(crate) fn add(&mut self, verdict: &Arc<Verdict>) {
        let Some((print, form)) = form(verdict) else {
            self.loose.push(Arc::clone(verdict));
            return;
        };
        match self.forms.iter_mut().find(|(known, _)| *known == form) {
            Some((_, count)) => *count += 1,
            None => self.forms.push((form, 1)),
        }
        self.by_print.entry(print).or_default().push(Arc::clone(verdict));
    }

    pub(crate) fn remove(&mut self, verdict: &Arc<Verdict>) {
        let Some((print, form)) = form(verdict) else {
            self.loose.retain(|held| !Arc::ptr_eq(held, verdict));
            return;
        };
        let Some(held) = self.by_print.get_mut(&print) else { return };
        let before = held.len();
        held.retain(|held| !Arc::ptr_eq(held, verdict));
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

    /// Those in force that bind a call of an agent; nudges about its tool among them.
    pub(crate) fn binding(&self, agent: &Agent, call: &Call, now: EventTime, out: &mut Vec<Arc<Verdict>>) {
        let binds = |verdict: &Verdict| {
            let only = &verdict.scope.only;
            let is_meant =
                |(session_id, agent_id): &(String, String)| *session_id == agent.session_id && *agent_id == agent.agent_id;
            verdict.expires_at > now && (only.is_empty() || only.iter().any(is_meant))
        };
        for ((tool, recipe), _) in &self.forms {
            if tool.as_deref().is_some_and(|tool| tool != call.tool) {
                continue;
            }
            let held = call.fingerprint(recipe).and_then(|print| self.by_print.get(&print));
            let has_form = |verdict: &&Arc<Verdict>| {
                let own = verdict.scope.fingerprint.as_ref().map(|(_, own)| own);
                own == Some(recipe) && verdict.scope.tool == *tool && binds(verdict)
            };
            out.extend(held.into_iter().flatten().filter(has_form).cloned());
        }
        let is_of_tool = |verdict: &Verdict| match &verdict.scope.tool {
            Some(tool) => *tool == call.tool,
            None => !verdict.is_of_loop && verdict.scope.has_tool(&call.tool),
        };
        out.extend(self.loose.iter().filter(|verdict| is_of_tool(verdict) && binds(verdict)).cloned());
    }

    /// Whether it holds a verdict that was found by no fingerprint.
    pub(crate) fn holds_loose(&self, command_id: &str) -> bool {
        self.loose.iter().any(|held| held.command_id == command_id)
    }
}

/// Fingerprint and form, where calls can be found by them.
fn form(verdict: &Verdict) -> Option<(Hash128, Form)> {
    let (print, recipe) = verdict.scope.fingerprint.as_ref()?;
    (*recipe != IdentityRecipe::Opaque).then(|| (*print, (verdict.scope.tool.clone(), recipe.clone())))
}

#[cfg(test)]
mod tests {
    use loopwarden_core::engine::joined;
    use loopwarden_core::event::{Content, RecordMeta, decode};
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
            let found = rows.of_others(&agent, &call, now());
            assert_eq!(found.len(), usize::from(is_bound), "{kind} {name}");
            assert!(found.iter().all(|verdict| rows.holds(&agent, verdict)), "{kind}");
            // Its row binds the same, and takes it away.
            let key = joined(&["group", "", kind, name, "budget/b/day"]);
            let mut rows = Rows::default();
            assert_eq!(rows.row(&key, read_row(row(1, std::slice::from_ref(&command)).as_bytes()), now()), kind != "galaxy");
            assert_eq!(rows.of_others(&agent, &call, now()).len(), usize::from(is_bound), "{kind} {name}");
            rows.row(&key, None, now());
            assert_eq!(rows.of_others(&agent, &call, now()).len(), 0);
        }
    }

    #[test]
    fn a_row_of_a_group_that_was_forgotten_is_missing_for_its_agents() {
        let mut rows = Rows::default();
        rows.was_not_read(&joined(&["group", "", "agent", "main", "budget/b/day"]));
        let beginning = joined(&["group", "", "agent", "main", ""]);
        assert_eq!(rows.missing(&Agent::named("", "s", "main", "w"), now()), [beginning]);
        assert_eq!(rows.missing(&Agent::named("", "s", "other", "w"), now()), [""; 0]);
    }
}
