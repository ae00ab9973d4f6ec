//! The timers of a session: idleness, calls that never return, verdicts that expire (rules I3 to I5).

use crate::detect::Flags;
use crate::engine::recording::lifecycle::{drop_expired, forget};
use crate::engine::{
    effects::Effects, marks::Mark, session::Head, session::Session, timer::TimerKind, watched::Watch, watching::end_watch,
};
use crate::event::EventTime;
use crate::policy::Policy;

/// The idle timer of a session whose clock lags is armed later than it must by one part in so many of its life.
const IDLE_SLACK: i64 = 16;

/// Armed once and moved only forward by its own firing; an end brings it closer (rule I5). A session whose clock lags behind the
/// watermark would be idle by its own time while it still speaks. There the watermark shows when it spoke last, and the timer moves a
/// little further than it must, so that it does not move with each event.
pub(super) fn arm_idle(policy: &Policy, session: &mut Session, watermark: EventTime, out: &mut Effects) {
    let head = &mut session.head;
    let lifetime = lifetime_ms(policy, head.has_ended);
    let lifetime = if head.is_watched() { lifetime.min(policy.episodes.nudge_ms) } else { lifetime };
    let slack = lifetime / IDLE_SLACK;
    let due = head.time.max(watermark).plus_ms(lifetime);
    let lags = watermark > head.time;
    let moved = match head.timers.due(TimerKind::Idle) {
        None => due,
        Some(armed) if armed > due.plus_ms(slack) => due,
        Some(armed) if lags && armed < due => due.plus_ms(slack),
        Some(_) => return,
    };
    head.timers.arm(TimerKind::Idle, Some(moved), &mut out.timers);
}

/// When the outcome of an agent of a trial is due, should it say no more: what it was sent is over, and none of its calls may still end.
fn outcome_at(policy: &Policy, head: &Head) -> Option<EventTime> {
    let silent = head.time.plus_ms(head.lag_ms).plus_ms(policy.episodes.nudge_ms);
    head.is_watched().then(|| head.timers.due(TimerKind::OpenCalls).map_or(silent, |closes| silent.max(closes)))
}

const fn lifetime_ms(policy: &Policy, has_ended: bool) -> i64 {
    if has_ended { policy.ended_ms } else { policy.idle_ms }
}

/// Arms the timer of open calls for one that was requested at `time`, unless it is armed. Timers follow the task's clock: by its own, a
/// session whose clock lags would be overdue at once.
pub(super) fn arm_open_calls(policy: &Policy, session: &mut Session, time: EventTime, out: &mut Effects) {
    let head = &mut session.head;
    if head.timers.due(TimerKind::OpenCalls).is_none() {
        let due = time.plus_ms(head.lag_ms).plus_ms(policy.open_call_ms);
        head.timers.arm(TimerKind::OpenCalls, Some(due), &mut out.timers);
    }
}

/// A timer that was due at `at` has fired.
pub(super) fn fire(policy: &Policy, session: &mut Session, kind: TimerKind, at: EventTime, out: &mut Effects) {
    match kind {
        TimerKind::Idle => {
            session.head.timers.fired(kind);
            if outcome_at(policy, &session.head).is_some_and(|due| due <= at) {
                end_watch(session, Watch::Over, out);
            }
            let gone_at = session.head.time.plus_ms(lifetime_ms(policy, session.head.has_ended));
            // An agent that has ended is forgotten sooner than its block ends: it would come back free.
            let blocked_until = session.head.board.verdicts.blocks().map(|block| block.expires_at).max();
            let gone_at = blocked_until.map_or(gone_at, |until| gone_at.max(until));
            if gone_at > at {
                let next = outcome_at(policy, &session.head).map_or(gone_at, |due| due.min(gone_at));
                session.head.timers.arm(kind, Some(next), &mut out.timers);
            } else {
                forget(session, out);
            }
        }
        TimerKind::OpenCalls => {
            session.head.timers.fired(kind);
            close_open_calls(policy, session, at, out);
        }
        TimerKind::Verdicts => {
            session.head.timers.fired(kind);
            drop_expired(session, at, out);
        }
        TimerKind::Panes | TimerKind::SwarmVerdicts | TimerKind::Stop => {}
    }
}

fn close_open_calls(policy: &Policy, session: &mut Session, at: EventTime, out: &mut Effects) {
    let mut overdue = Vec::new();
    let mut next: Option<EventTime> = None;
    for step in session.history.ring().filter(|step| step.flags.contains(Flags::OPEN)) {
        let closes_at = step.time.plus_ms(session.head.lag_ms).plus_ms(policy.open_call_ms);
        if closes_at <= at {
            overdue.push(step.sequence);
        } else {
            next = Some(next.map_or(closes_at, |earliest| earliest.min(closes_at)));
        }
    }
    for sequence in overdue {
        session.history.update(sequence, |step| step.flags.set(Flags::OPEN, false));
        session.touch(sequence);
        out.marks.push(Mark::CallClosed);
    }
    session.head.timers.arm(TimerKind::OpenCalls, next, &mut out.timers);
}
