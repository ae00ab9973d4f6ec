//! Effects of the engine, on their way into the overlay: one for sessions, counters and stops.

use loopwarden_core::engine::{Effects, TimerChange};
use loopwarden_core::event::{RecordOffset, TaskId};
use loopwarden_log::Output;
use loopwarden_state::TimerKey;

use crate::commit::overlay::{Overlay, Sent};
use crate::metrics::stats::{Published, bump};
use crate::stage::context::Cause;
use crate::{encode::Encoder, settings::ProcessMode, task::state::Running};

/// Moves timers of a subject.
pub(super) fn move_timers(task: &mut Running, changes: &[TimerChange], subject: &[u8]) {
    for change in changes {
        let key = |due| TimerKey { due, kind: change.kind.number(), subject };
        if let Some(was) = change.was {
            task.timers.remove(&key(was).encode());
        }
        if let Some(now) = change.now {
            task.timers.set(&key(now));
        }
    }
}

/// What an input decided about a subject.
pub(super) struct Decided<'a> {
    /// Key of the subject among timers.
    pub(super) key: &'a [u8],
    pub(super) effects: &'a mut Effects,
    /// Its state row, where that changed.
    pub(super) row: Option<Output>,
}

/// Brings what was decided about a session, a counter or a stop into the overlay: its timers, its commands, numbered, its row, and what is
/// counted.
pub(super) fn finish(
    id: TaskId,
    task: &mut Running,
    encoder: &Encoder,
    overlay: &mut Overlay,
    decided: Decided<'_>,
    cause: Cause,
) {
    let Decided { key, effects, row } = decided;
    move_timers(task, &effects.timers, key);
    for command in effects.commands.drain(..) {
        let name = loopwarden_core::identity::base32(&command.id.0);
        let ordinal = task.count_output(name.as_bytes());
        let mode = match encoder.mode_of(command.is_shadow) {
            ProcessMode::Live => Published::Live,
            ProcessMode::Shadow => Published::Shadow,
            ProcessMode::Replay => Published::Replay,
        };
        if let Some(by_mode) = overlay.stats.commands.get_mut(command.action as usize) {
            bump(by_mode, mode as usize);
        }
        overlay.sent.push(Sent { action: command.action, caused_at: cause.record_time, expires_at: command.expires_at });
        overlay.push_command((id, RecordOffset(cause.offset)), command, ordinal);
        overlay.command_waits = true;
    }
    if let Some(row) = row {
        overlay.set_row(id, row);
        overlay.command_waits = true;
    }
    overlay.stats.note(effects);
}
