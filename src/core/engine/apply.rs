//! `SessionEngine::apply`: one input into one session.

use std::sync::Arc;

use crate::engine::input::{Input, SourcePosition};
use crate::engine::observe::{Recorded, observe};
use crate::engine::recording::lifecycle::{drop_expired, note_world, reset, reset_at, unblock_on_policy_change};
use crate::engine::recording::record::{note_findings, record, turn_has_ended};
use crate::engine::session::{Head, Session};
use crate::engine::tree::{self, Tree};
use crate::engine::{
    accounts::Account, command::ReasonCode, context::Context, deciding::decide::decide, due, effects::Effects,
    publishing::publish::publish, subject::SubjectKey, timer::TimerKind,
};
use crate::event::{Event, EventKind, EventTime};
use crate::identity::{Hash64, hash_text};
use crate::policy::Policy;

/// Applies inputs to sessions under one policy. It has no state of its own.
#[derive(Debug, Clone)]
pub struct SessionEngine {
    app: Arc<str>,
    policy: Arc<Policy>,
}

impl SessionEngine {
    /// An engine for an application (its name is part of every command id) and a policy.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { app: app.into(), policy }
    }

    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Applies one input to the session of `subject`. Cannot fail: what may fail happened in `decode`.
    pub fn apply(&self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        let was_blocked = is_blocked(session);
        match input {
            Input::Event(event, place) => self.event(subject, session, event, place, out),
            Input::Reset(event, place) => {
                let id = hash_text(&event.id).hash64();
                out.counters.duplicate = !session.head.board.takes(id);
                if !out.counters.duplicate {
                    let context = self.context(subject, session, event, id, place);
                    reset(&context, session, ReasonCode::Reset, out);
                }
            }
            Input::Timer(kind, at) => due::fire(&self.policy, session, kind, at, out),
        }
        let expiry = session.head.board.verdicts.next_expiry();
        session.head.timers.arm(TimerKind::Verdicts, expiry, &mut out.timers);
        out.counters.blocked_delta = i32::from(is_blocked(session)) - i32::from(was_blocked);
    }

    /// The walk of an event, and what comes before and after it.
    fn event(
        &self,
        subject: &SubjectKey,
        session: &mut Session,
        event: &Event<'_>,
        place: SourcePosition<'_>,
        out: &mut Effects,
    ) {
        self.begin(session, event, out);
        let id = hash_text(&event.id).hash64();
        if session.history.knows_event(id) || session.head.board.has_seen(id) {
            out.counters.duplicate = true;
            // The record itself, read again because a commit has cut it in two: agents may be left. A copy of it is another record.
            out.reaches_others = session.head.board.has_seen(reset_at(event, place));
            return;
        }
        let pause_ms = event.time.0.saturating_sub(session.head.time.0).max(0);
        let joins = note_arrival(session, event, place.watermark, out);
        out.counters.joined = joins;
        let context = Context { pause_ms, ..self.context(subject, session, event, id, place) };
        drop_expired(session, context.time, out);
        unblock_on_policy_change(&context, session, out);
        // What is found at the end of a turn may block the very call that ended it: it is a moment of its own, before the event.
        let has_spoken = turn_has_ended(&context, session) && {
            let turn = Recorded { compares_calls: true, ..Recorded::default() };
            judge(&context, session, &turn, true, out)
        };
        note_world(&context, session);
        let account = Account::before(session, joins);
        let recorded = record(&context, session, out);
        judge(&context, session, &recorded, !has_spoken, out);
        account.after(&context, session, &recorded, out);
        if !is_of_call(&event.kind) {
            session.head.board.note_seen(id);
        }
        // A late answer or ack does not bring an ended agent back.
        if begins_again(&event.kind) {
            session.head.has_ended = false;
        }
        due::arm_idle(&self.policy, session, place.watermark, out);
    }

    fn context<'a>(
        &'a self,
        subject: &'a SubjectKey,
        session: &Session,
        event: &'a Event<'a>,
        id: Hash64,
        place: SourcePosition<'a>,
    ) -> Context<'a> {
        let time = event.time.max(session.head.time);
        Context {
            app: &self.app,
            policy: &self.policy,
            subject,
            event,
            id,
            place,
            time,
            pause_ms: 0,
            floor: session.history.floor(),
        }
    }

    /// The first event of a session, or the first after it was forgotten.
    fn begin(&self, session: &mut Session, event: &Event<'_>, out: &mut Effects) {
        if !session.has_begun {
            session.has_begun = true;
            session.head.board.epoch = event.record_time.0.max(session.head.board.epoch.saturating_add(1));
            session.head.time = event.time;
            session.head.policy = self.policy.hash.hash64();
            out.counters.session_began = true;
        }
    }
}

/// What the detectors see in what was recorded, and what is done about it: at most one command, which `may_speak` allows. Whether
/// there is one.
fn judge(context: &Context<'_>, session: &mut Session, recorded: &Recorded<'_>, may_speak: bool, out: &mut Effects) -> bool {
    let mut findings = observe(context, recorded, &session.history, &mut session.head.streaks);
    // What a person has let be is no finding: it costs nothing, counts nowhere and is published by nobody.
    findings.retain(|finding| !session.head.exempt.take(finding, context.time));
    if findings.is_empty() {
        return false;
    }
    note_findings(session, &findings, out);
    let decision = decide(context, &session.history, &mut session.head, &findings, out).filter(|_| may_speak);
    if let Some(decision) = &decision {
        publish(context, session, decision, &findings, out);
    }
    out.findings.append(&mut findings);
    decision.is_some()
}

/// Whether a block of the session is in force.
fn is_blocked(session: &Session) -> bool {
    session.head.board.verdicts.blocks().next().is_some()
}

/// Time, lag, the producer's counter, the swarm and the tree of an event. Whether its agent names a tree for the first time.
fn note_arrival(session: &mut Session, event: &Event<'_>, watermark: EventTime, out: &mut Effects) -> bool {
    let head = &mut session.head;
    out.counters.late = event.time < head.time;
    out.counters.clamped = event.time_clamped;
    head.time = event.time.max(head.time);
    // While calls may be open the largest lag counts: in a partition where little comes the watermark stands still for a while, and
    // then the lag looks smaller than it is.
    let lag_ms = watermark.0.saturating_sub(head.time.0).max(0);
    head.lag_ms = if head.timers.due(TimerKind::OpenCalls).is_some() { head.lag_ms.max(lag_ms) } else { lag_ms };
    if let Some(seq) = event.seq {
        let expected = head.producer_seq;
        out.counters.seq_gap = expected != 0 && seq > expected;
        out.counters.seq_disorder = expected != 0 && seq < expected;
        head.producer_seq = expected.max(seq.saturating_add(1));
    }
    if let Some(swarm) = &event.swarm_id
        && *head.swarm_id != **swarm
    {
        head.swarm_id = Box::from(&**swarm);
    }
    tree::is_named(event) && note_tree(head, event)
}

/// The tree of the last event that named one. Whether none was known before.
fn note_tree(head: &mut Head, event: &Event<'_>) -> bool {
    let named = Tree::of(event);
    let is_first = head.tree.is_none();
    let tree = head.tree.get_or_insert_default();
    **tree = Tree { spawns: tree.spawns, ..named };
    is_first
}

/// Calls and their results are known by the ring of steps.
const fn is_of_call(kind: &EventKind<'_>) -> bool {
    matches!(kind, EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::ToolResult(_))
}

/// Whether an agent that has ended is at work again.
const fn begins_again(kind: &EventKind<'_>) -> bool {
    matches!(
        kind,
        EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::Message(_) | EventKind::SessionStart | EventKind::Progress
    )
}
