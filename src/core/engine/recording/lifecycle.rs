//! What lets a session forget: resets, progress, verdicts that expire, a policy that no longer blocks.

use crate::detect::{Flags, Matrix, Streaks};
use crate::engine::command::{Action, Command, ReasonCode};
use crate::engine::publishing::board::Verdict;
use crate::engine::{
    context::Context, deciding::episode::Track, effects::Effects, input::SourcePosition, session::Session, subject::SEPARATOR,
    timer::TimerKind, watched::Watch, watching::end_watch,
};
use crate::event::{Event, EventTime};
use crate::identity::{Hash64, hash_text};
use crate::policy::{Arm, Detector, Mode, SessionBounds};

/// Forgets what was counted: the floor rises, scalars become 0, episodes close, blocks get an `unblock`. Totals stay.
pub(crate) fn reset(context: &Context<'_>, session: &mut Session, reason: ReasonCode, out: &mut Effects) {
    unblock(context, session, reason, |_| true, out);
    out.verdicts_changed |= session.head.board.verdicts.clear();
    forget_counts(session, out);
}

/// The beginning or the end of a session, as its own agent reports it. A block that such an event lifts binds nobody who can send it.
pub(crate) fn bound(context: &Context<'_>, session: &mut Session, reason: ReasonCode, out: &mut Effects) {
    match context.policy.progress.session_bounds {
        SessionBounds::All => reset(context, session, reason, out),
        SessionBounds::Counts => {
            out.verdicts_changed |= session.head.board.verdicts.keep_blocks();
            forget_counts(session, out);
        }
    }
}

/// What was counted, and what was published about it.
fn forget_counts(session: &mut Session, out: &mut Effects) {
    end_watch(session, Watch::Over, out);
    session.history.raise_floor();
    session.head.streaks = Streaks::default();
    session.head.pending_turn = 0;
    session.head.world = Hash64::NONE;
    session.head.episodes.clear();
    session.head.shadow_episodes.clear();
    session.head.pending_nudge = None;
    session.head.user_texts.clear();
    session.head.user_words.clear();
    // `call_rate` reads the ring below the floor; a reset that people asked for forgets that too.
    forget_calls(session);
}

/// Evidence of progress: every run and window starts over; episodes, blocks and `test_fix` stay.
pub(crate) fn progress(session: &mut Session) {
    session.history.raise_floor();
    let streaks = &mut session.head.streaks;
    *streaks = Streaks {
        tests: streaks.tests,
        exploration: streaks.exploration,
        spent: std::mem::take(&mut streaks.spent),
        ..Streaks::default()
    };
}

/// A changed world is progress.
pub(crate) fn note_world(context: &Context<'_>, session: &mut Session) {
    let Some(state) = context.event.state.as_deref() else { return };
    let state = hash_text(state).hash64();
    let has_changed = session.head.world.is_some() && session.head.world != state;
    session.head.world = state;
    if has_changed && context.policy.progress.world_state {
        progress(session);
    }
}

/// A block whose detector no longer blocks gets an `unblock` at the session's next event.
pub(crate) fn unblock_on_policy_change(context: &Context<'_>, session: &mut Session, out: &mut Effects) {
    let policy = context.policy;
    let hash = policy.hash.hash64();
    if session.head.policy == hash {
        return;
    }
    session.head.policy = hash;
    let still_blocks = |detector| {
        let blocks_with_others = policy.fusion.decides && policy.detectors.mode(detector) == Mode::Block;
        blocks_with_others || policy.detectors.blocks_alone(detector)
    };
    // Whom a trial only watches is sent nothing, and held by nothing that was sent before.
    let (tenant, session_id) = (context.tenant(), &*context.event.session_id);
    let arm = policy.trial.arm(tenant, session_id);
    let is_watched = arm == Some(Arm::Control);
    unblock(context, session, ReasonCode::Policy, |block| is_watched || !block.detector().is_some_and(still_blocks), out);
    if is_watched {
        out.verdicts_changed |= session.head.board.verdicts.clear();
    } else {
        // What an agent was not sent is no reason to be firmer with it once its trial is over.
        session.head.episodes.retain(|episode| !episode.is_control);
    }
    // Of an agent that changes its arm nothing can be known.
    if session.head.watched.is_some_and(|agent| arm != Some(agent.arm)) {
        end_watch(session, Watch::LetBe, out);
    }
}

/// Sends `unblock` for every active block that is meant, one per episode.
pub(super) fn unblock(
    context: &Context<'_>,
    session: &mut Session,
    reason: ReasonCode,
    is_meant: impl Fn(&Verdict) -> bool,
    out: &mut Effects,
) {
    let head = &mut session.head;
    let lifted = head.board.verdicts.unblock(context.time, is_meant);
    if lifted.is_empty() {
        return;
    }
    for block in &lifted {
        let origin = context.origin(head.board.epoch, head.next_seq(Track::Live));
        // Of a reset they show who it was.
        out.commands.push(Command { labels: context.event.owned_labels(), ..block.unblock(origin, reason) });
    }
    for episode in &mut head.episodes {
        if lifted.iter().any(|block| block.episode == episode.id) {
            episode.block_until = None;
        }
    }
    out.verdicts_changed = true;
}

/// Verdicts that have run out leave. When it was a block of the progress matrix, its streaks begin anew.
pub(crate) fn drop_expired(session: &mut Session, time: EventTime, out: &mut Effects) {
    let head = &mut session.head;
    let expired = head.board.verdicts.expire(time);
    if expired.is_empty() {
        return;
    }
    let is_of_matrix = |verdict: &Verdict| {
        verdict.action == Action::Block && matches!(verdict.detector(), Some(Detector::Stagnation | Detector::Stuck))
    };
    if expired.iter().any(is_of_matrix) {
        let category = head.streaks.matrix.category;
        head.streaks.matrix = Matrix { category, ..Matrix::default() };
    }
    out.verdicts_changed = true;
}

/// The calls of the ring leave `call_rate`'s count, which looks no further back than to one that is marked.
fn forget_calls(session: &mut Session) {
    let Some(newest) = session.history.newest().map(|step| step.sequence) else { return };
    session.history.update(newest, |step| step.flags.set(Flags::FORGOTTEN, true));
    session.touch(newest);
}

/// A reset of a session at its place in the log.
pub(crate) fn reset_at(event: &Event<'_>, place: SourcePosition<'_>) -> Hash64 {
    hash_text(&format!("{}{SEPARATOR}{}", event.id, place.offset)).hash64()
}

/// The idle timer's part of forgetting: the session is gone, with its other timers and its verdicts.
pub(crate) fn forget(session: &mut Session, out: &mut Effects) {
    end_watch(session, Watch::Over, out);
    let head = &mut session.head;
    head.timers.arm(TimerKind::OpenCalls, None, &mut out.timers);
    out.verdicts_changed = head.board.verdicts.clear();
    out.forgotten = true;
}
