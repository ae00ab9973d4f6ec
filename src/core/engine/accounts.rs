//! What is added up beside judging: what an event has cost, which part of it was spent in a loop, what it used of budgets, and what became of
//! the agent of a trial. Nothing here changes what is decided.
//!
//! Metrics, reports and trials add up what stands here and nothing else: each event costs once, so what loops cost is never above what their
//! session did.

use crate::detect::{Flags, Step};
use crate::engine::cost::{Cost, OpenCost};
use crate::engine::recording::uses::{Did, count_uses};
use crate::engine::{context::Context, effects::Effects, observe::Recorded, session::Session, watching::watch};
use crate::event::{EventKind, Role};

/// What is known of an event before it is recorded.
pub(super) struct Account {
    /// Number of the next call.
    next: u64,
    had_ended: bool,
    joins: bool,
}

impl Account {
    /// Before an event is recorded. `joins`: its agent names its tree for the first time.
    pub(super) const fn before(session: &Session, joins: bool) -> Self {
        Self { next: session.history.next_sequence(), had_ended: session.head.has_ended, joins }
    }

    /// After it was judged.
    pub(super) fn after(self, context: &Context<'_>, session: &mut Session, recorded: &Recorded<'_>, out: &mut Effects) {
        let Self { next, had_ended, joins } = self;
        note_cost(context, session, next, recorded, out);
        if !context.policy.budgets.is_empty() || session.head.tree.is_some() {
            let did = Did { calls: recorded.is_requested, joins, ends: session.head.has_ended && !had_ended };
            count_uses(context, session, did, out);
        }
        if out.spending.found != 0 {
            note_counted(session, next, out);
        }
        if session.head.watched.is_some() || !out.commands.is_empty() {
            watch(session, next, out);
        }
    }
}

/// Notes what a recorded event has cost. `next` is the number of the next call before it.
fn note_cost(context: &Context<'_>, session: &mut Session, next: u64, recorded: &Recorded<'_>, out: &mut Effects) {
    let event = context.event;
    let mut cost = Cost::of(&event.usage);
    session.head.used = session.head.used.and(cost);
    let spending = &mut out.spending;
    if session.history.next_sequence() > next {
        cost.calls = 1;
        if cost.is_known() && session.history.newest().is_some_and(|step| step.flags.contains(Flags::OPEN)) {
            let open = OpenCost { sequence: next, tokens: cost.tokens, micro_usd: cost.micro_usd, counted: 0 };
            session.head.open_costs.push(open);
        }
    } else if let Some((sequence, _)) = recorded.step {
        (spending.before, spending.known) = session.head.open_costs.take(sequence);
    } else if matches!(&event.kind, EventKind::Message(message) if message.role == Role::Assistant) {
        cost.calls = 1;
    }
    spending.event = cost;
}

/// Notes that an open call was counted with its first event: its result adds no more than it costs itself.
fn note_counted(session: &mut Session, next: u64, out: &Effects) {
    let is_open = |step: &Step| step.sequence >= next && step.flags.contains(Flags::OPEN);
    if !session.history.newest().is_some_and(is_open) {
        return;
    }
    let costs = &mut session.head.open_costs;
    match costs.calls.last_mut().filter(|open| open.sequence == next) {
        Some(open) => open.counted |= out.spending.found,
        None => costs.push(OpenCost { sequence: next, counted: out.spending.found, ..OpenCost::default() }),
    }
}
