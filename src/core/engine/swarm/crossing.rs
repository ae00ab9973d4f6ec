//! One crossing of a step, whatever is summed: its command, what that leaves in force, and what its period has published.
//!
//! A swarm, a budget and a tree differ in what they sum and in what they write about it. When their window crosses a step, all three go this way.

use crate::detect::CommandText;
use crate::engine::command::{Action, Command, Fact, Origin, ReasonCode, Scope, Trigger};
use crate::engine::publishing::board::Verdict;
use crate::engine::swarm::counter::{Period, SwarmCounter};
use crate::engine::{effects::Effects, effects::SwarmCallKey, swarm::rules::Rules};
use crate::event::EventTime;
use crate::policy::{Mode, Policy};

/// What a counter is judged under, and whose it is.
pub(super) struct Judge<'a> {
    pub app: &'a str,
    pub policy: &'a Policy,
    pub key: &'a SwarmCallKey,
    pub rules: Rules,
    /// The stage's time waits for its slowest source: a counter's own greatest time makes no call late.
    pub is_aligned: bool,
}

/// A step that a window's sum has crossed, and what is published about it.
pub(super) struct Crossing {
    /// Event time at which the period begins, in which a step is published once. Milliseconds.
    pub start: i64,
    /// Where counting begins in the period: its start, or the reset in it.
    pub epoch: i64,
    /// Grows with the sum; the greatest one that was published is kept.
    pub step: u32,
    pub action: Action,
    pub level: u8,
    pub is_shadow: bool,
    pub scope: Scope,
    pub issued_at: EventTime,
    pub expires_at: EventTime,
    pub confidence: f64,
    pub text: CommandText,
    pub evidence: Vec<(&'static str, Fact)>,
    pub contributors: Vec<String>,
}

impl Judge<'_> {
    /// Publishes a crossing: the next command of its period.
    pub(super) fn publish(&self, counter: &mut SwarmCounter, crossing: Crossing, out: &mut Effects) {
        let Crossing { start, epoch, step, action, level, issued_at, expires_at, text, .. } = crossing;
        let before = counter.published(start, epoch);
        let seq = before.map_or(1, |period| period.seq + 1);
        let origin = self.origin(start, epoch, seq, issued_at);
        let reason = ReasonCode::Detector(self.rules.detector);
        let begun = Command::new(origin, action, reason, crossing.scope, level, expires_at);
        let command = Command {
            episode: before.map_or(begun.id, |period| period.episode),
            is_shadow: crossing.is_shadow,
            confidence: Some(crossing.confidence),
            summary: text.summary,
            evidence: crossing.evidence,
            message: Some(text.text),
            advice: Some(text.advice),
            contributors: crossing.contributors,
            ..begun
        };
        counter.periods.insert(start, Period { epoch, seq, step, episode: command.episode });
        counter.board.note_sent(epoch, seq);
        out.verdicts_changed |= counter.board.verdicts.activate(&command, self.rules.detector, counter.time);
        out.commands.push(command);
    }

    /// Lifts a block of the period that begins at `start`: its next command, above the block, and with the same id whichever commit it
    /// comes in. It is issued at `at`, but never before the block: a reset has the time at which its agent sent it.
    pub(super) fn unblock(
        &self,
        counter: &mut SwarmCounter,
        start: i64,
        block: &Verdict,
        reason: ReasonCode,
        at: EventTime,
        out: &mut Effects,
    ) {
        let Some(period) = counter.periods.get_mut(&start) else { return };
        period.seq += 1;
        counter.board.note_sent(period.epoch, period.seq);
        let origin = self.origin(start, period.epoch, period.seq, at.max(block.issued_at));
        out.commands.push(block.unblock(origin, reason));
    }

    fn origin(&self, start: i64, epoch: i64, seq: u64, issued_at: EventTime) -> Origin<'_> {
        let trigger = Trigger::Window { end: self.rules.period_end(start) };
        Origin { app: self.app, subject: self.key.subject(), epoch, seq, issued_at, trigger }
    }

    /// Until when a command about the window that ends with a pane holds. It runs from the loop on, by the counter's own time. What a report
    /// brings long after is over when it is published; it is published all the same, so that no command hangs on the order of reports.
    pub(super) fn expiry(&self, counter: &SwarmCounter, pane: EventTime, issued_at: EventTime, is_block: bool) -> EventTime {
        let lifetime_ms = if is_block { self.policy.episodes.block_ms } else { self.policy.episodes.nudge_ms };
        let pane_end = pane.plus_ms(self.rules.pane_ms);
        let late_ms = if self.rules.window_ms > 0 { counter.time.0.saturating_sub(pane_end.0).max(0) } else { 0 };
        issued_at.plus_ms(lifetime_ms.saturating_sub(late_ms).max(0))
    }

    pub(super) fn is_shadow(&self) -> bool {
        self.rules.mode == Mode::Shadow
    }
}
