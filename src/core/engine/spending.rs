//! What an event has cost, and which part of it was spent in a loop. Metrics, reports and trials add this up and nothing else: each event
//! costs once, so what loops cost is never above what their session did.

use crate::detect::{Flags, Step};
use crate::engine::cost::{Cost, OpenCost};
use crate::engine::{context::Context, effects::Effects, observe::Recorded, session::Session};
use crate::event::{EventKind, Role};

/// Notes what a recorded event has cost. `next` is the number of the next call before it.
pub(super) fn note_cost(context: &Context<'_>, session: &mut Session, next: u64, recorded: &Recorded<'_>, out: &mut Effects) {
    let event = context.event;
    let mut cost = Cost::of(&event.usage);
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
pub(super) fn note_counted(session: &mut Session, next: u64, out: &Effects) {
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
