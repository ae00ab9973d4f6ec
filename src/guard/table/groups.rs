//! Verdicts that bind a swarm or the fleet, found by the fingerprint of a call: there may be thousands.

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwarden_core::event::EventTime;
use loopwarden_core::identity::{Hash128, IdentityRecipe};

use crate::agents::agent::Agent;
use crate::table::matching::Call;
use crate::wire::verdict::Verdict;

/// Which calls a fingerprint is made of, and how.
type Form = (Option<String>, IdentityRecipe);

/// The verdicts of one swarm, or of the fleet of one tenant.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Each form with how many verdicts have it: a call is hashed once for each.
    forms: Vec<(Form, usize)>,
    by_print: BTreeMap<Hash128, Vec<Arc<Verdict>>>,
    /// Those whose calls cannot be found by a fingerprint: nudges about a tool.
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
        let is_of_tool = |verdict: &&Arc<Verdict>| verdict.scope.tool.as_ref() == Some(&call.tool) && binds(verdict);
        out.extend(self.loose.iter().filter(is_of_tool).cloned());
    }
}

/// Fingerprint and form, where calls can be found by them.
fn form(verdict: &Verdict) -> Option<(Hash128, Form)> {
    let (print, recipe) = verdict.scope.fingerprint.as_ref()?;
    (*recipe != IdentityRecipe::Opaque).then(|| (*print, (verdict.scope.tool.clone(), recipe.clone())))
}
