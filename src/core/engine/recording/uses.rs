//! What an event uses of the budgets of the policy, and shows of a tree of agents, for the swarm stage to add up.

use crate::detect::Brief;
use crate::engine::effects::{BudgetUse, Effects, SwarmCallKey, TreeFact, TreeUse};
use crate::engine::{context::Context, session::Session};
use crate::limits::USED_LATE_MS_MAX;
use crate::policy::Used;
use crate::whom::Who;

/// What an event did beside its usage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Did {
    /// A call is made with it.
    pub calls: bool,
    /// Its agent names its tree for the first time.
    pub joins: bool,
    /// Its agent reports its end.
    pub ends: bool,
}

/// Adds what an event used to each budget that covers it, and to the tree of its agent.
pub(crate) fn count_uses(context: &Context<'_>, session: &Session, did: Did, out: &mut Effects) {
    let usage = context.event.usage;
    let tree = session.head.tree.as_deref();
    let depth = tree.map_or(0, |tree| tree.depth);
    let used = Used {
        calls: u64::from(did.calls),
        tokens: usage.input_tokens.saturating_add(usage.output_tokens),
        cost_micro_usd: usage.cost_micro_usd,
        // The root was started by nobody.
        agents: u64::from(did.joins && depth > 0),
        ended: u64::from(did.ends && depth > 0),
        depth: if did.joins { depth } else { 0 },
        first: context.time,
        last: context.time,
    };
    if used == (Used { first: context.time, last: context.time, ..Used::default() }) {
        return;
    }
    let who = session.head.who(context.subject).map(|who| Who { labels: Some(&context.event.labels), ..who });
    for budget in context.policy.budgets.iter() {
        let Some(whom) = who.as_ref().and_then(|who| budget.whom(who)) else { continue };
        let key = SwarmCallKey::Budget { budget: budget.name.clone(), per: budget.per, whom };
        let record_time = context.event.record_time;
        // What has no window of the clock has no window to escape, and its length is that of the work.
        let is_old = budget.per.window_ms() > 0 && record_time.0.saturating_sub(context.time.0) > USED_LATE_MS_MAX;
        let at = if is_old { record_time } else { context.time };
        let used = Used { first: at, last: at, ..used };
        out.uses.push(BudgetUse { key, window: budget.per.window_of(at), used, record_time });
    }
    if tree.is_some() && context.policy.detectors.tree.mode.is_on() {
        note_in_tree(context, session, TreeFact::Used(used), out);
        if used.agents > 0 {
            note_in_tree(context, session, TreeFact::Began { depth }, out);
        }
    }
}

/// A call that starts an agent is made.
pub(crate) fn count_spawn(context: &Context<'_>, session: &Session, brief: Brief, out: &mut Effects) {
    note_in_tree(context, session, TreeFact::Spawned(brief), out);
}

/// An agent that was started has failed, or brought what was known.
pub(crate) fn count_spawn_in_vain(context: &Context<'_>, session: &Session, out: &mut Effects) {
    if context.policy.detectors.tree.mode.is_on() && session.head.tree.is_some() {
        note_in_tree(context, session, TreeFact::InVain, out);
    }
}

fn note_in_tree(context: &Context<'_>, session: &Session, what: TreeFact, out: &mut Effects) {
    out.trees.push(TreeUse {
        tenant: context.tenant().to_owned(),
        tree: tree(session).to_owned(),
        session_id: context.event.session_id.clone().into_owned(),
        agent_id: context.event.agent_id.clone().into_owned(),
        time: context.time,
        record_time: context.event.record_time,
        what,
    });
}

/// The tree of a session; empty where it is in none.
fn tree(session: &Session) -> &str {
    session.head.tree.as_ref().map_or("", |tree| &*tree.name)
}
