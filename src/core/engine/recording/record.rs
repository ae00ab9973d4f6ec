//! `record`: what an event changes in a session, before any detector looks at it.

use crate::detect::text_only::Text;
use crate::detect::{Finding, Flags};
use crate::engine::effects::{Effects, NudgeResponse, SwarmReset};
use crate::engine::recording::calls::{record_call, record_result};
use crate::engine::recording::lifecycle::{bound, progress, reset, reset_at};
use crate::engine::{
    command::ReasonCode, context::Context, deciding::episode::Track, observe::Recorded, recording::answers::answer,
    session::Session,
};
use crate::event::{EventKind, Message, ResetScope, Role};
use crate::identity::{Hash64, read_message, sketch_message, text_identity};
use crate::limits::{USER_NAMING_TEXTS_MAX, USER_TEXTS_MAX, USER_WORDS_MAX};
use crate::policy::{Detector, UserMessage};

/// A text that comes so long after the last event begins a turn of its own. Milliseconds of event time.
const ORDER_PAUSE_MS: i64 = 120_000;
/// Texts of a person that share so much of their runs of words are alike. Percent.
const USER_TEXT_PERCENT: usize = 50;

/// Records an event. What detectors are to look at is in the answer.
pub(crate) fn record<'a>(context: &Context<'a>, session: &mut Session, out: &mut Effects) -> Recorded<'a> {
    let event = context.event;
    if context.policy.detectors.budget.mode.is_on() {
        session.head.streaks.spent.note(event);
    }
    match &event.kind {
        EventKind::ToolCall(call) => return record_call(context, session, call, None, out),
        EventKind::Tool(call, result) => return record_call(context, session, call, Some(result), out),
        EventKind::ToolResult(result) => return record_result(context, session, result, out),
        EventKind::Message(message) => {
            return Recorded { text: record_message(context, session, message), ..Recorded::default() };
        }
        EventKind::SessionStart => bound(context, session, ReasonCode::SessionStart, out),
        EventKind::SessionEnd => {
            if let Some(nudge) = session.head.pending_nudge.take() {
                out.counters.nudge_response = Some((nudge.detector, NudgeResponse::Ended));
            }
            bound(context, session, ReasonCode::SessionEnd, out);
            session.head.has_ended = true;
        }
        EventKind::Progress => {
            if event.state.is_none() && context.policy.progress.world_state {
                progress(session);
            }
        }
        EventKind::Reset(ResetScope::Swarm) => {
            out.swarm_reset = event.swarm_id.as_deref().map(|swarm| SwarmReset {
                tenant: context.tenant().to_owned(),
                swarm_id: swarm.to_owned(),
                time: context.time,
            });
        }
        EventKind::Reset(ResetScope::Agent) => reset(context, session, ReasonCode::Reset, out),
        EventKind::Reset(ResetScope::Session) => {
            reset(context, session, ReasonCode::Reset, out);
            session.head.board.note_seen(reset_at(event, context.place));
            out.reaches_others = true;
        }
        EventKind::Ack(ack) => out.counters.ack = Some(*ack),
        EventKind::Answer(given) => answer(context, session, given, out),
        // They are about no session, but about a subject of their own.
        EventKind::Stop(_) | EventKind::Release(_) => {}
    }
    Recorded::default()
}

/// A message: a text of the agent that counts.
fn record_message<'a>(context: &Context<'a>, session: &mut Session, message: &'a Message<'a>) -> Option<(&'a Message<'a>, Text)> {
    let policy = context.policy;
    let is_read = match message.role {
        Role::System => false,
        Role::User => policy.progress.user_message != UserMessage::Ignore,
        Role::Assistant => policy.detectors.text_only.mode.is_on() || policy.detectors.own_words.mode.is_on(),
    };
    if !is_read || context.event.command_id.is_some() || was_sent_by_us(session, message) {
        return None;
    }
    match (message.role, policy.progress.user_message) {
        (Role::Assistant, _) => {
            let turn = context.turn();
            let text = Text {
                turn,
                event: context.id,
                before: session.head.board.seen.back().copied().unwrap_or(Hash64::NONE),
                pause_ms: context.pause_ms,
                next_step: session.history.next_sequence(),
                has_call: turn != 0 && session.history.newest().is_some_and(|step| step.turn == turn),
            };
            return (message.says_something() && !message.is_final).then_some((message, text));
        }
        (Role::User, UserMessage::Text) => session.head.streaks.texts.turns = 0,
        (Role::User, UserMessage::News) if !brings_news(context, session, message) => {}
        (Role::User, UserMessage::Reset | UserMessage::News) => {
            session.history.raise_floor();
            session.head.streaks.begin_anew();
            session.head.episodes.clear();
            session.head.shadow_episodes.clear();
        }
        (Role::User, UserMessage::Ignore) | (Role::System, _) => {}
    }
    None
}

/// Whether a person's text brings anything: there is one, no harness wrote it, and it is not like one of the last ones.
fn brings_news(context: &Context<'_>, session: &mut Session, message: &Message<'_>) -> bool {
    if !message.says_something() {
        return false;
    }
    let text = message.text().filter(|_| context.policy.needs.evidence);
    let read = text.map(|text| read_message(&text, USER_WORDS_MAX));
    if let Some(read) = &read {
        let known = &mut session.head.user_words;
        if known.len() >= USER_NAMING_TEXTS_MAX {
            known.pop_front();
        }
        known.push_back(read.named.as_slice().into());
    }
    // Minutes after the last event the turn has ended: this is an order or the tick of a schedule, whatever it repeats.
    if context.pause_ms >= ORDER_PAUSE_MS {
        return true;
    }
    if message.is_synthetic {
        return false;
    }
    // A text that only its producer knows is compared by its hash.
    let (sketch, words) =
        read.filter(|read| read.words > 0).map_or_else(|| sketch_message(message), |read| (read.sketch, read.words));
    let known = &mut session.head.user_texts;
    let is_new = words > 0 && !known.iter().any(|earlier| earlier.view().is_alike(sketch.view(), USER_TEXT_PERCENT));
    if known.len() >= USER_TEXTS_MAX {
        known.pop_front();
    }
    known.push_back(sketch);
    is_new
}

/// Most sessions had no nudge: there is nothing that a text could be compared with.
fn was_sent_by_us(session: &Session, message: &Message<'_>) -> bool {
    let sent = &session.head.sent_texts;
    !sent.is_empty() && text_identity(message).is_some_and(|text| sent.contains(&text.hash64()))
}

/// Whether the turn before this event is over, and its calls are to be judged (`evaluate = "turn"`, HackEurope26). It is over before an
/// event of another turn, a message or the end.
pub(crate) fn turn_has_ended(context: &Context<'_>, session: &mut Session) -> bool {
    if session.head.pending_turn == 0 {
        return false;
    }
    let turn = context.turn();
    let is_call = matches!(context.event.kind, EventKind::ToolCall(_) | EventKind::Tool(..));
    let is_judged = context.judges_by_turn();
    let is_over = matches!(context.event.kind, EventKind::Message(_) | EventKind::SessionEnd)
        || ((turn != 0 || is_call) && turn != session.head.pending_turn);
    // Another policy may have left it.
    if is_over || !is_judged {
        session.head.pending_turn = 0;
    }
    is_over && is_judged
}

/// Notes findings at their steps. What only a shadow detector or a signal finds is no loop that anybody would hear of, and costs nothing.
pub(crate) fn note_findings(session: &mut Session, findings: &[Finding], out: &mut Effects) {
    for finding in findings.iter().filter(|finding| finding.is_current) {
        if Track::of(finding) == Track::Live {
            out.spending.found |= finding.detector.bit();
        }
        if finding.detector == Detector::CallRate && finding.block_at > 0 {
            // A call that has run counts, whatever its rate.
            session.history.update(finding.last, |step| step.flags.set(Flags::OVER_RATE, !step.flags.contains(Flags::OBSERVED)));
        }
        if !finding.detector.is_of_texts() {
            session.history.fire(finding.last, finding.detector);
            session.touch(finding.last);
        }
    }
}
