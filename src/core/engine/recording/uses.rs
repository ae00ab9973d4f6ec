//! What an event uses of the budgets of the policy, for the swarm stage to add up.

use crate::engine::context::Context;
use crate::engine::effects::{BudgetUse, Effects, SwarmCallKey};
use crate::engine::session::Session;
use crate::engine::subject::{Group, GroupKind};
use crate::policy::{Budget, BudgetScope, Per, Used};

/// Adds what an event used to each budget that covers it. `is_call`: a call is made with it.
pub(crate) fn count_uses(context: &Context<'_>, session: &Session, is_call: bool, out: &mut Effects) {
    let usage = context.event.usage;
    let used = Used {
        calls: u64::from(is_call),
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        cost_micro_usd: usage.cost_micro_usd,
        first: context.time,
        last: context.time,
    };
    if used.calls == 0 && used.tokens == 0 && used.cost_micro_usd == 0 {
        return;
    }
    for budget in context.policy.budgets.iter() {
        let Some(group) = group(context, session, budget) else { continue };
        let key =
            SwarmCallKey::Budget { tenant: context.tenant().to_owned(), budget: budget.name.clone(), per: budget.per, group };
        let window = budget.per.window_of(context.time);
        out.uses.push(BudgetUse { key, window, used, record_time: context.event.record_time });
    }
}

/// Whose use a budget adds up with this event; none where it does not cover it.
fn group(context: &Context<'_>, session: &Session, budget: &Budget) -> Option<Group> {
    let event = context.event;
    let (name, group) = match &budget.scope {
        BudgetScope::Agent => (&*event.agent_id, Group::new(GroupKind::Agent, &*event.agent_id)),
        BudgetScope::Swarm => (&*session.head.swarm_id, Group::new(GroupKind::Swarm, &*session.head.swarm_id)),
        BudgetScope::Tenant => (context.tenant(), Group::tenant()),
        BudgetScope::Label(key) => {
            let (_, value) = event.labels.iter().find(|(label, _)| label == key)?;
            (&**value, Group::label(key, value)?)
        }
    };
    // Who is in no swarm has no budget of one.
    let is_nobody = group.name.is_empty() && group.kind != GroupKind::Tenant;
    if is_nobody || !budget.covers(name) {
        return None;
    }
    Some(if budget.per == Per::Session { Group::new(GroupKind::Session, &*event.session_id) } else { group })
}
