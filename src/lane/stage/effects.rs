//! Effects of the engine that both stages bring into the overlay: timers and commands.

use loopwarden_core::engine::{Command, TimerChange};
use loopwarden_core::event::{EventTime, RecordOffset, TaskId};
use loopwarden_state::TimerKey;

use crate::commit::overlay::{Overlay, Sent};
use crate::metrics::stats::{Published, bump};
use crate::{encode::Encoder, settings::ProcessMode, task::state::Running};

/// Moves timers of a subject.
pub(crate) fn move_timers(task: &mut Running, changes: &[TimerChange], subject: &[u8]) {
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

/// Brings commands into the overlay, numbered.
/// `cause` is the task and the record behind the commands.
pub(crate) fn send_commands(
    cause: (TaskId, RecordOffset),
    task: &mut Running,
    encoder: &Encoder,
    overlay: &mut Overlay,
    commands: &mut Vec<Command>,
    caused_at: EventTime,
) {
    for command in commands.drain(..) {
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
        overlay.sent.push(Sent { action: command.action, caused_at, expires_at: command.expires_at });
        overlay.push_command(cause, command, ordinal);
        overlay.command_waits = true;
    }
}
