//! What a person's answer to a command changes: the loop is let be, and what stands about it goes.

use crate::engine::command::{CommandId, ReasonCode};
use crate::engine::{
    context::Context, effects::Effects, exemptions::Exemption, recording::lifecycle::unblock, session::Session, watched::Watch,
    watching::end_watch,
};
use crate::event::{Answer, EventTime, Judged};
use crate::identity::base32;
use crate::policy::Detector;

/// Takes an answer. One to an episode that the session knows no more is a label alone.
pub(super) fn answer(context: &Context<'_>, session: &mut Session, answer: &Answer<'_>, out: &mut Effects) {
    let until = match answer.judged {
        Judged::Right => return,
        Judged::FalseAlarm => EventTime(i64::MAX),
        Judged::Allowed(until) => until,
    };
    let head = &session.head;
    let mut known = head.episodes.iter().chain(&head.shadow_episodes);
    let Some(episode) = known.find(|episode| base32(&episode.id.0) == answer.episode).copied() else { return };
    // A false alarm about a budget is no end of it: whoever raises it changes the policy, or allows it for a while.
    let is_limit = episode.detector == Detector::Budget && answer.judged == Judged::FalseAlarm;
    if until <= context.time || is_limit {
        return;
    }
    end_watch(session, Watch::LetBe, out);
    let head = &session.head;
    let of_loop = head.episodes.iter().chain(&head.shadow_episodes).filter(|other| other.identity == episode.identity);
    let ids: Vec<CommandId> = of_loop.map(|episode| episode.id).collect();
    unblock(context, session, ReasonCode::Answer, |block| ids.contains(&block.episode), out);
    let head = &mut session.head;
    for id in ids {
        out.verdicts_changed |= !head.board.verdicts.lift(id).is_empty();
    }
    head.episodes.retain(|other| other.identity != episode.identity);
    head.shadow_episodes.retain(|other| other.identity != episode.identity);
    head.pending_nudge = None;
    head.exempt.add(Exemption { identity: episode.identity, until, seen: episode.last_seen }, context.time);
}
