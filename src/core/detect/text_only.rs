//! `text_only`: the agent talks and calls nothing (attocode's summary loop). Page `detection`.
//!
//! Example: three status reports in a row. Limits: a declared end (`final`) is no loop, and a person's message starts over unless
//! the policy ignores it.

use crate::detect::finding::{Family, Finding, loop_identity};
use crate::detect::streaks::Streaks;
use crate::policy::{Detector, TextOnly};

/// Takes an assistant message that is neither empty nor final; several of one turn count once. `turn` is the turn + 1, 0 = unknown.
pub fn observe(settings: &TextOnly, streaks: &mut Streaks, turn: u64, newest_step: u64) -> Option<Finding> {
    if turn != 0 && streaks.text_turn == turn {
        return None;
    }
    streaks.text_turn = turn;
    streaks.text_turns = streaks.text_turns.saturating_add(1);
    (streaks.text_turns >= settings.threshold).then(|| {
        Finding::new(Detector::TextOnly, settings.mode, loop_identity(Family::Text, &[]), streaks.text_turns, settings.threshold)
            .confident(0.5, 0.1)
            .spanning(newest_step, newest_step)
    })
}
