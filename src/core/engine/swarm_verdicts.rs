//! What of a counter's commands is in force: its state row, and what a reset has to lift.

use crate::engine::command::{Action, Command, Verdict};
use crate::engine::effects::Effects;
use crate::engine::swarm::SwarmCounter;
use crate::engine::timer::{TimerChange, TimerKind};
use crate::event::EventTime;
use crate::limits::ACTIVE_VERDICTS_MAX;
use crate::policy::Detector;

/// The verdict joins those in force; expired ones leave, and of its episode those it stands for: a block renews all, a nudge lifts no block.
pub(super) fn hold(counter: &mut SwarmCounter, command: &Command, detector: Detector, out: &mut Effects) {
    let now = counter.time;
    if command.is_shadow || command.expires_at <= now {
        return;
    }
    out.verdicts_changed = true;
    let verdicts = &mut counter.verdicts;
    verdicts.retain(|verdict| {
        let is_followed = verdict.action != Action::Block || command.action == Action::Block;
        verdict.expires_at > now && (verdict.episode != command.episode || !is_followed)
    });
    if verdicts.len() >= ACTIVE_VERDICTS_MAX {
        // Each block is of a period of its own, and a policy has fewer of these within the life of a block than there is room: there is a
        // nudge, or record times far ahead of the calls have made blocks live longer.
        let nudge = verdicts.iter().position(|verdict| verdict.action == Action::Nudge);
        verdicts.remove(nudge.unwrap_or(0));
    }
    verdicts.push(Verdict::of(command, detector));
    arm_verdicts(counter, out);
}

/// Until when a block is in force; none is.
pub(super) fn blocks_until(counter: &SwarmCounter) -> Option<EventTime> {
    let blocks = counter.verdicts.iter().filter(|verdict| verdict.action == Action::Block);
    blocks.map(|verdict| verdict.expires_at).max()
}

/// The verdicts' timer stands where the first of them expires.
pub(super) fn arm_verdicts(counter: &mut SwarmCounter, out: &mut Effects) {
    let earliest = counter.verdicts.iter().map(|verdict| verdict.expires_at).min();
    if counter.verdict_due != earliest {
        out.timers.push(TimerChange { kind: TimerKind::SwarmVerdicts, was: counter.verdict_due, now: earliest });
        counter.verdict_due = earliest;
    }
}
