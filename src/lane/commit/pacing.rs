//! When to commit: often enough for a command, seldom enough for the broker.

use crate::commit::overlay::Overlay;
use crate::settings::{Clock, CommitTrigger};

/// A flooded lane spends at most one part in this many plus one of its time committing. One that has read all there is would only
/// wait, and rests half as long as its commits take: where they take long, brokers and processors are busy, and more of them would make
/// each take longer.
const PAUSE_FACTOR: u64 = 4;
/// One part in so many of a commit's length is the rest of a lane that has read all there is.
const REST_PART: u64 = 2;

/// Sums for the swarm stage wait at most this part of the longest wait in a lane that has read all there is: their command has a second
/// commit before it. Each commit for sums alone is one that a session's command may have to wait for.
const REPORT_PART: u64 = 2;

#[derive(Debug)]
pub(crate) struct CommitPacing {
    trigger: CommitTrigger,
    /// Moving average of a commit's length.
    average_us: u64,
    ended_ms: u64,
    /// The last poll ended before the input did.
    is_backlogged: bool,
}

impl CommitPacing {
    pub(crate) const fn new(trigger: CommitTrigger) -> Self {
        Self { trigger, average_us: 0, ended_ms: 0, is_backlogged: false }
    }

    /// Whether the pause after the last commit is over even for a flooded lane: then reading on would only delay a command.
    pub(crate) fn is_over(&self, clock: &dyn Clock) -> bool {
        match self.trigger {
            CommitTrigger::Timed { min_ms, .. } => clock.mono_ms() >= self.ended_ms + self.backlogged_pause_ms(min_ms),
            CommitTrigger::EveryRecords(_) => false,
        }
    }

    pub(crate) fn backlogged_pause_ms(&self, min_ms: u64) -> u64 {
        min_ms.max(PAUSE_FACTOR * self.average_us / 1_000)
    }

    /// Learns from a poll whether it ended before the input did.
    pub(crate) const fn polled(&mut self, is_backlogged: bool) {
        self.is_backlogged = is_backlogged;
    }

    /// In how many milliseconds the clock wants a commit; `None`: never by itself.
    pub(crate) fn due_in(&self, overlay: &Overlay, now_ms: u64) -> Option<u64> {
        let CommitTrigger::Timed { max_ms, min_ms } = self.trigger else { return None };
        let since_ms = overlay.since_ms?;
        let mut due_ms = since_ms + max_ms;
        if overlay.command_waits {
            let pause_ms = if self.is_backlogged {
                self.backlogged_pause_ms(min_ms)
            } else {
                min_ms.max(self.average_us / REST_PART / 1_000)
            };
            due_ms = due_ms.min(self.ended_ms + pause_ms);
        } else if !self.is_backlogged && !overlay.sums.is_empty() {
            due_ms = due_ms.min(since_ms + max_ms / REPORT_PART);
        }
        Some(due_ms.saturating_sub(now_ms))
    }

    pub(crate) fn ended(&mut self, length_us: u64, now_ms: u64) {
        self.average_us = if self.average_us == 0 { length_us } else { (7 * self.average_us + length_us) / 8 };
        self.ended_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use loopwarden_core::{engine::SwarmReset, event::EventTime};

    use super::*;
    use crate::settings::LaneSettings;

    struct At(u64);

    impl Clock for At {
        fn mono_us(&self) -> u64 {
            self.0 * 1_000
        }

        fn wall_ms(&self) -> i64 {
            0
        }
    }

    fn timed() -> CommitPacing {
        CommitPacing::new(LaneSettings::default().trigger)
    }

    #[test]
    fn a_quiet_lane_commits_a_command_at_once_and_a_record_after_a_while() {
        let pacing = timed();
        let mut overlay = Overlay { since_ms: Some(1_000), ..Overlay::default() };
        assert_eq!(pacing.due_in(&overlay, 1_001), Some(99));
        overlay.command_waits = true;
        assert_eq!(pacing.due_in(&overlay, 1_001), Some(0));
    }

    #[test]
    fn a_flooded_lane_spends_a_fifth_of_its_time_committing() {
        let mut pacing = timed();
        pacing.ended(10_000, 2_000);
        pacing.polled(true);
        let overlay = Overlay { since_ms: Some(2_000), command_waits: true, ..Overlay::default() };
        assert_eq!(pacing.due_in(&overlay, 2_001), Some(39));
        assert!(!pacing.is_over(&At(2_039)));
        assert!(pacing.is_over(&At(2_040)));
    }

    #[test]
    fn a_lane_that_has_read_all_there_is_rests_half_as_long_as_a_commit_takes() {
        let overlay = Overlay { since_ms: Some(2_000), command_waits: true, ..Overlay::default() };
        for (length_us, due_in_ms) in [(1_000, 1), (20_000, 9)] {
            let mut pacing = timed();
            pacing.ended(length_us, 2_000);
            pacing.polled(false);
            assert_eq!(pacing.due_in(&overlay, 2_001), Some(due_in_ms));
        }
    }

    #[test]
    fn sums_for_the_swarm_stage_wait_half_of_the_time() {
        let mut pacing = timed();
        let reset = SwarmReset { tenant: String::new(), swarm_id: "w".to_owned(), time: EventTime(0) };
        let mut overlay = Overlay { since_ms: Some(1_000), ..Overlay::default() };
        overlay.sums.reset(reset, EventTime(0));
        assert_eq!(pacing.due_in(&overlay, 1_001), Some(49));
        pacing.polled(true);
        assert_eq!(pacing.due_in(&overlay, 1_001), Some(99));
    }
}
