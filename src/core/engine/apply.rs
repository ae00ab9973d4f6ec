//! `SessionEngine::apply`: one input into one session. What an event means before any detector looks at it: redelivery, time,
//! lifecycle, resets, progress.

use std::sync::Arc;

use crate::detect::{Finding, Streaks, text_only};
use crate::engine::command::{Action, ReasonCode};
use crate::engine::context::Context;
use crate::engine::effects::{Effects, SwarmReset};
use crate::engine::input::{Input, Place};
use crate::engine::marks::Mark;
use crate::engine::session::Session;
use crate::engine::subject::{SEPARATOR, SubjectKey};
use crate::engine::timer::{TimerChange, TimerKind};
use crate::event::{Event, EventKind, EventTime, Message, ResetScope, Role};
use crate::identity::{Hash64, hash_text, text_identity};
use crate::limits::RECENT_IDS_MAX;
use crate::policy::{Counted, Evaluate, Policy, UserMessage};

/// The idle timer of a session whose clock lags is armed later than it must by one part in so many of its life.
const IDLE_SLACK: i64 = 16;

/// Applies inputs to sessions under one policy. One per lane; it has no state of its own but scratch memory.
#[derive(Debug, Clone)]
pub struct SessionEngine {
    pub(super) app: Arc<str>,
    pub(super) policy: Arc<Policy>,
    /// Findings of the event at hand; kept for its memory.
    pub(super) findings: Vec<Finding>,
    /// A command was published for the event at hand: it gets no second one.
    pub(super) spoke: bool,
}

impl SessionEngine {
    /// An engine for an application (its name is part of every command id) and a policy.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { app: app.into(), policy, findings: Vec::new(), spoke: false }
    }

    /// The policy in force.
    #[must_use]
    pub const fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The application's name.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Applies one input to the session of `subject`. Cannot fail: what may fail happened in `decode`.
    pub fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        let was_blocked = active_blocks(session) > 0;
        match input {
            Input::Event(event, place) => self.event(subject, session, event, place, out),
            Input::Reset(event, place) => {
                let id = hash_text(&event.id).hash64();
                if session.head.recent_events.contains(&id) {
                    out.tally.duplicate = true;
                    return;
                }
                remember(session, id);
                let time = event.time.max(session.head.time);
                let policy = Arc::clone(&self.policy);
                let context = Context::new(&policy, subject, event, id, place, (time, session.history.floor()));
                self.reset(&context, session, ReasonCode::Reset, out);
            }
            Input::Timer(kind, due) => self.timer(session, kind, due, out),
        }
        out.tally.blocked_delta = i32::from(active_blocks(session) > 0) - i32::from(was_blocked);
    }

    fn event(&mut self, subject: &SubjectKey, session: &mut Session, event: &Event<'_>, place: Place<'_>, out: &mut Effects) {
        self.begin(session, event, out);
        let id = hash_text(&event.id).hash64();
        if session.history.knows_event(id) || session.head.recent_events.contains(&id) {
            out.tally.duplicate = true;
            // The record itself, read again because a commit has cut it in two: agents may be left. A copy of it is another record.
            out.reaches_others = session.head.recent_events.contains(&reset_at(event, place));
            return;
        }
        let time = event.time.max(session.head.time);
        out.tally.late = event.time < session.head.time;
        out.tally.clamped = event.time_clamped;
        session.head.time = time;
        note_lag(session, place.watermark);
        sequence_gaps(session, event, out);
        if let Some(swarm) = &event.swarm_id
            && *session.head.swarm_id != **swarm
        {
            session.head.swarm_id = Box::from(&**swarm);
        }
        let policy = Arc::clone(&self.policy);
        let context = Context::new(&policy, subject, event, id, place, (time, session.history.floor()));
        self.spoke = false;
        drop_expired(session, time, out);
        self.lift_by_policy(&context, session, out);
        self.close_turn(&context, session, out);
        self.world(session, event);
        match &event.kind {
            EventKind::ToolCall(call) => self.call(&context, session, call, None, out),
            EventKind::Tool(call, result) => self.call(&context, session, call, Some(result), out),
            EventKind::ToolResult(result) => self.result(&context, session, result, id, out),
            EventKind::Message(message) => self.message(&context, session, message, out),
            EventKind::SessionStart => self.reset(&context, session, ReasonCode::SessionStart, out),
            EventKind::SessionEnd => {
                if let Some(awaited) = session.head.awaiting.take() {
                    out.tally.obeyed = Some((awaited.detector, crate::engine::Answer::Ended));
                }
                self.reset(&context, session, ReasonCode::SessionEnd, out);
                session.head.has_ended = true;
            }
            EventKind::Progress => {
                if event.state.is_none() && self.policy.progress.world_state {
                    self.progress(session);
                }
            }
            EventKind::Reset(ResetScope::Swarm) => {
                out.swarm_reset = event.swarm_id.as_deref().map(|swarm| SwarmReset {
                    tenant: event.tenant.as_deref().unwrap_or_default().to_owned(),
                    swarm_id: swarm.to_owned(),
                    time,
                });
            }
            EventKind::Reset(ResetScope::Agent) => self.reset(&context, session, ReasonCode::Reset, out),
            EventKind::Reset(ResetScope::Session) => {
                self.reset(&context, session, ReasonCode::Reset, out);
                remember(session, reset_at(event, place));
                out.reaches_others = true;
            }
            EventKind::Ack(ack) => out.tally.ack = Some(*ack),
        }
        if !matches!(event.kind, EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::ToolResult(_)) {
            remember(session, id);
        }
        // A late answer or ack does not bring an ended agent back.
        if matches!(
            event.kind,
            EventKind::ToolCall(_) | EventKind::Tool(..) | EventKind::Message(_) | EventKind::SessionStart | EventKind::Progress
        ) {
            session.head.has_ended = false;
        }
        self.arm_idle(session, place.watermark, out);
    }

    /// The first event of a session, or the first after it was forgotten.
    fn begin(&self, session: &mut Session, event: &Event<'_>, out: &mut Effects) {
        if !session.has_begun {
            session.has_begun = true;
            session.head.epoch = event.record_time.0.max(session.head.epoch.saturating_add(1));
            session.head.time = event.time;
            session.head.policy = self.policy.hash.hash64();
            out.tally.session_began = true;
        }
    }

    /// HackEurope26 checks after all calls of a reply: once per turn, before an event of another turn, a message or the end.
    fn close_turn(&mut self, context: &Context<'_>, session: &mut Session, out: &mut Effects) {
        if session.head.pending_turn == 0 || !self.judges_by_turn() {
            // Another policy may have left it.
            session.head.pending_turn = 0;
            return;
        }
        let turn = context.event.turn.map_or(0, |turn| turn.saturating_add(1));
        let is_call = matches!(context.event.kind, EventKind::ToolCall(_) | EventKind::Tool(..));
        let is_over = matches!(context.event.kind, EventKind::Message(_) | EventKind::SessionEnd)
            || ((turn != 0 || is_call) && turn != session.head.pending_turn);
        if is_over {
            session.head.pending_turn = 0;
            self.evaluate_repeats(context.policy, session);
            self.decide(context, session, out);
        }
    }

    pub(super) fn judges_by_turn(&self) -> bool {
        let settings = &self.policy.detectors.exact_repeat;
        settings.evaluate == Evaluate::Turn && settings.mode.is_on()
    }

    /// A changed world is progress.
    fn world(&self, session: &mut Session, event: &Event<'_>) {
        let Some(state) = event.state.as_deref() else { return };
        let state = hash_text(state).hash64();
        let has_changed = session.head.world.is_some() && session.head.world != state;
        session.head.world = state;
        if has_changed && self.policy.progress.world_state {
            self.progress(session);
        }
    }

    fn message(&mut self, context: &Context<'_>, session: &mut Session, message: &Message<'_>, out: &mut Effects) {
        let is_read = match message.role {
            Role::System => false,
            Role::User => self.policy.progress.user_message != UserMessage::Ignore,
            Role::Assistant => self.policy.detectors.text_only.mode.is_on(),
        };
        if !is_read {
            return;
        }
        let sent = &session.head.sent_texts;
        // Most sessions were told nothing: there is nothing that a text could be compared with.
        let was_sent = || !sent.is_empty() && text_identity(message).is_some_and(|text| sent.contains(&text.hash64()));
        if context.event.command_id.is_some() || was_sent() {
            return;
        }
        match message.role {
            Role::System => {}
            Role::User => match self.policy.progress.user_message {
                UserMessage::Ignore => {}
                UserMessage::Text => session.head.streaks.texts.turns = 0,
                UserMessage::Reset => {
                    session.history.raise_floor();
                    session.head.streaks = Streaks::default();
                    session.head.episodes.clear();
                    session.head.shadow_episodes.clear();
                }
            },
            Role::Assistant => {
                let settings = &self.policy.detectors.text_only;
                if message.says_something() && !message.is_final {
                    let turn = context.event.turn.map_or(0, |turn| turn.saturating_add(1));
                    let newest = session.history.next_sequence().saturating_sub(1);
                    self.findings.extend(text_only::observe(settings, &mut session.head.streaks.texts, turn, newest));
                    self.decide(context, session, out);
                }
            }
        }
    }

    /// Evidence of progress: every run and window starts over; episodes, blocks and `test_fix` stay.
    fn progress(&self, session: &mut Session) {
        session.history.raise_floor();
        let streaks = &mut session.head.streaks;
        *streaks = Streaks { tests: streaks.tests, exploration: streaks.exploration, ..Streaks::default() };
        // Calls that changed the world got somewhere, whatever their answers say.
        if self.policy.detectors.call_rate.count == Counted::Unproductive {
            forget_calls(session);
        }
    }

    /// Forget what was counted: the floor rises, scalars become 0, episodes close, blocks are lifted. Totals stay.
    fn reset(&self, context: &Context<'_>, session: &mut Session, reason: ReasonCode, out: &mut Effects) {
        session.history.raise_floor();
        session.head.streaks = Streaks::default();
        session.head.pending_turn = 0;
        session.head.world = Hash64::NONE;
        self.lift(context, session, reason, |_| true, out);
        session.head.episodes.clear();
        session.head.shadow_episodes.clear();
        session.head.awaiting = None;
        if !session.head.verdicts.is_empty() {
            session.head.verdicts.clear();
            out.verdicts_changed = true;
        }
        arm(&mut session.head.verdict_due, TimerKind::Verdicts, None, out);
        // `call_rate` reads the ring below the floor; a reset that people asked for forgets that too, as progress may.
        forget_calls(session);
    }

    /// A block whose detector no longer blocks is lifted at the session's next event.
    fn lift_by_policy(&self, context: &Context<'_>, session: &mut Session, out: &mut Effects) {
        let policy = self.policy.hash.hash64();
        if session.head.policy == policy {
            return;
        }
        session.head.policy = policy;
        let policy = context.policy;
        let still_blocks = |detector| {
            let blocks_with_others = policy.fusion.decides && policy.detectors.mode(detector) == crate::policy::Mode::Block;
            blocks_with_others || policy.detectors.blocks_alone(detector)
        };
        self.lift(context, session, ReasonCode::Policy, |detector| !still_blocks(detector), out);
    }

    /// Armed once and moved only forward by its own firing; an end brings it closer (rule I5). A session whose clock lags behind the
    /// watermark would be idle by its own time while it still speaks: there the watermark says when it spoke last, and the timer
    /// moves a little further than it must, so that it does not move with each event.
    fn arm_idle(&self, session: &mut Session, watermark: EventTime, out: &mut Effects) {
        let lifetime = if session.head.has_ended { self.policy.ended_ms } else { self.policy.idle_ms };
        let slack = lifetime / IDLE_SLACK;
        let due = session.head.time.max(watermark).plus_ms(lifetime);
        let lags = watermark > session.head.time;
        match session.head.idle_due {
            None => arm(&mut session.head.idle_due, TimerKind::Idle, Some(due), out),
            Some(armed) if armed > due.plus_ms(slack) => arm(&mut session.head.idle_due, TimerKind::Idle, Some(due), out),
            Some(armed) if lags && armed < due => {
                arm(&mut session.head.idle_due, TimerKind::Idle, Some(due.plus_ms(slack)), out);
            }
            Some(_) => {}
        }
    }

    fn timer(&self, session: &mut Session, kind: TimerKind, due: EventTime, out: &mut Effects) {
        match kind {
            TimerKind::Idle => {
                let lifetime = if session.head.has_ended { self.policy.ended_ms } else { self.policy.idle_ms };
                let gone_at = session.head.time.plus_ms(lifetime);
                session.head.idle_due = None;
                if gone_at > due {
                    session.head.idle_due = Some(gone_at);
                    out.timers.push(TimerChange { kind, was: None, now: Some(gone_at) });
                } else {
                    arm(&mut session.head.open_due, TimerKind::OpenCalls, None, out);
                    arm(&mut session.head.verdict_due, TimerKind::Verdicts, None, out);
                    out.verdicts_changed = !session.head.verdicts.is_empty();
                    session.head.verdicts.clear();
                    out.forgotten = true;
                }
            }
            TimerKind::OpenCalls => {
                session.head.open_due = None;
                self.close_open_calls(session, due, out);
            }
            TimerKind::Verdicts => {
                session.head.verdict_due = None;
                drop_expired(session, due, out);
                arm_verdicts(session, out);
            }
            TimerKind::Panes | TimerKind::SwarmVerdicts => {}
        }
    }

    fn close_open_calls(&self, session: &mut Session, due: EventTime, out: &mut Effects) {
        use crate::detect::Flags;
        let mut overdue = Vec::new();
        let mut next: Option<EventTime> = None;
        for step in session.history.ring().filter(|step| step.flags.has(Flags::OPEN)) {
            let closes_at = step.time.plus_ms(session.head.lag_ms).plus_ms(self.policy.open_call_ms);
            if closes_at <= due {
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
        session.head.open_due = next;
        if next.is_some() {
            out.timers.push(TimerChange { kind: TimerKind::OpenCalls, was: None, now: next });
        }
    }
}

/// How far the session's clock lags. While calls may be open the largest lag counts: in a partition where little comes the watermark
/// stands still for a while, and then the lag looks smaller than it is.
fn note_lag(session: &mut Session, watermark: EventTime) {
    let head = &mut session.head;
    let lag_ms = watermark.0.saturating_sub(head.time.0).max(0);
    head.lag_ms = if head.open_due.is_some() { head.lag_ms.max(lag_ms) } else { lag_ms };
}

/// Moves a timer; nothing if it stands there already.
pub(super) fn arm(armed: &mut Option<EventTime>, kind: TimerKind, now: Option<EventTime>, out: &mut Effects) {
    if *armed != now {
        out.timers.push(TimerChange { kind, was: *armed, now });
        *armed = now;
    }
}

/// The verdicts' timer stands at the earliest expiry.
pub(super) fn arm_verdicts(session: &mut Session, out: &mut Effects) {
    let earliest = session.head.verdicts.iter().map(|verdict| verdict.expires_at).min();
    arm(&mut session.head.verdict_due, TimerKind::Verdicts, earliest, out);
}

/// Verdicts that have run out leave. When it was a block of the progress matrix, its streaks begin anew.
fn drop_expired(session: &mut Session, time: EventTime, out: &mut Effects) {
    use crate::policy::Detector;
    let head = &mut session.head;
    let before = head.verdicts.len();
    let is_matrix = |verdict: &crate::engine::Verdict| {
        verdict.action == Action::Block && matches!(verdict.detector, Detector::Stagnation | Detector::Stuck)
    };
    if head.verdicts.iter().any(|verdict| verdict.expires_at <= time && is_matrix(verdict)) {
        let category = head.streaks.matrix.category;
        head.streaks.matrix = crate::detect::Matrix { category, ..crate::detect::Matrix::default() };
    }
    head.verdicts.retain(|verdict| verdict.expires_at > time);
    if head.verdicts.len() != before {
        out.verdicts_changed = true;
        arm_verdicts(session, out);
    }
}

/// Live blocks of the session.
pub(super) fn active_blocks(session: &Session) -> usize {
    session.head.verdicts.iter().filter(|verdict| verdict.action == Action::Block).count()
}

/// The calls of the ring leave `call_rate`'s count, which looks no further back than to one that is marked.
fn forget_calls(session: &mut Session) {
    use crate::detect::Flags;
    let Some(newest) = session.history.ring_back().next().map(|step| step.sequence) else { return };
    session.history.update(newest, |step| step.flags.set(Flags::FORGOTTEN, true));
    session.touch(newest);
}

/// A reset of a session at its place in the log.
fn reset_at(event: &Event<'_>, place: Place<'_>) -> Hash64 {
    hash_text(&format!("{}{SEPARATOR}{}", event.id, place.offset)).hash64()
}

/// Notes the id of an event that is no call, or nobody's answer: a redelivery of it changes nothing.
pub(super) fn remember(session: &mut Session, id: Hash64) {
    let recent = &mut session.head.recent_events;
    if recent.len() >= RECENT_IDS_MAX {
        recent.pop_front();
    }
    recent.push_back(id);
}

fn sequence_gaps(session: &mut Session, event: &Event<'_>, out: &mut Effects) {
    let Some(seq) = event.seq else { return };
    let expected = session.head.producer_seq;
    out.tally.seq_gap = expected != 0 && seq > expected;
    out.tally.seq_disorder = expected != 0 && seq < expected;
    session.head.producer_seq = expected.max(seq.saturating_add(1));
}
