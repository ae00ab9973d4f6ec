//! Budgets that the agents of a session count in, and what is used of them in the window of now.

use loopwarden_core::engine::{Group, GroupKind, Verdict};
use loopwarden_core::policy::{Budget, BudgetScope, Per, Reached};
use loopwarden_core::setting::Mode;

/// An agent, by what budgets tell agents apart. Tenant and swarm are empty where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spender {
    pub tenant: String,
    pub session_id: String,
    pub agent_id: String,
    pub swarm_id: String,
    /// Name of its tree; empty: it is in none.
    pub tree: String,
}

/// A budget as of the last commit.
#[derive(Debug, Clone)]
pub struct BudgetView {
    pub name: String,
    pub per: Per,
    pub mode: Mode,
    /// Whose use it adds up, within the tenant.
    pub group: Group,
    /// Each limit, with what is used of it.
    pub parts: Vec<Reached>,
    /// What it has in force.
    pub verdicts: Vec<Verdict>,
}

impl Spender {
    /// The group of a budget that it belongs to. Which labels its events have is not known here.
    pub(crate) fn group(&self, budget: &Budget) -> Option<Group> {
        let label = String::new();
        let (name, group) = match &budget.scope {
            BudgetScope::Agent => (&self.agent_id, Group::new(GroupKind::Agent, self.agent_id.as_str())),
            BudgetScope::Swarm => (&self.swarm_id, Group::new(GroupKind::Swarm, self.swarm_id.as_str())),
            BudgetScope::Tenant => (&self.tenant, Group::tenant()),
            BudgetScope::Tree => (&self.tree, Group::new(GroupKind::Tree, self.tree.as_str())),
            // A sum of the session or of its tree needs no value of the label.
            BudgetScope::Label(_) => (&label, Group::new(GroupKind::Label, "")),
        };
        let is_of_label = matches!(budget.scope, BudgetScope::Label(_));
        let is_nobody = |group: &Group| group.name.is_empty() && group.kind != GroupKind::Tenant;
        if !is_of_label && (is_nobody(&group) || !budget.covers(name)) {
            return None;
        }
        let group = match budget.per {
            Per::Session => Group::new(GroupKind::Session, self.session_id.as_str()),
            Per::Tree => Group::new(GroupKind::Tree, self.tree.as_str()),
            Per::Minute | Per::Hour | Per::Day | Per::Week => group,
        };
        (!is_nobody(&group)).then_some(group)
    }
}
