//! Watermarks of the partitions of events, as a task of the swarm stage knows them: its own time waits for the slowest (rule W5).
//!
//! A source watermark is a time of recording: every event that its partition recorded before has been read, and its sums have come. A
//! report counts at once; the event time that it brings moves the task's time only when every source has passed the moment at which it
//! came. So what makes a call late are calls that were recorded before it, as for one reader of all partitions in the order of
//! recording.

use std::collections::BTreeMap;

use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::limits::SWARM_TIMES_MAX;
use loopwarden_state::{Change, StoreError};

use crate::memory::uncommitted::Uncommitted;

/// The least step between two watermarks that are waited for. Milliseconds.
const STEP_MS: i64 = 1_000;

/// What waits for the sources to get there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// Event time.
    time: EventTime,
    /// Calls that the task had counted by then.
    calls: u64,
}

/// Watermarks of all sources. Not stored: after a restart a task's time stands still until each source has sent one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// By partition of the events.
    watermarks: BTreeMap<u32, i64>,
    /// The greatest of them.
    newest: i64,
    /// Event times by the watermark that all sources must reach.
    waiting: BTreeMap<i64, Waiting>,
    /// Watermarks closer together than this are one. It grows with the lag. Milliseconds.
    step_ms: i64,
    /// Calls counted so far.
    calls: u64,
    /// Of these, those whose time has been released.
    calls_released: u64,
    /// Greatest event time that no source holds back any more.
    released: EventTime,
    /// Greatest event time that a source held back for too long.
    forced: EventTime,
}

impl Sources {
    /// Of a task that stands at a time; no source has sent a watermark.
    pub(crate) fn after(released: EventTime) -> Self {
        Self { released, ..Self::default() }
    }

    /// A report of so many calls has come, of events that were recorded up to `recorded` and that happened up to `time`.
    ///
    /// A source that has said nothing since may have older events still to come: so the wait is for watermarks greater than any that is
    /// known. That holds also where record timestamps are no times of arrival.
    pub(crate) fn note(&mut self, recorded: EventTime, time: EventTime, calls: u64, calls_max: u64) {
        self.calls = self.calls.saturating_add(calls);
        let until = recorded.0.max(self.newest.saturating_add(1));
        let until = round_up(until, self.step_ms.max(STEP_MS));
        let before = self.waiting.range(..=until).next_back().map_or(self.released, |(_, before)| before.time);
        if time > before {
            let waiting = self.waiting.entry(until).or_insert(Waiting { time, calls: 0 });
            *waiting = Waiting { time: time.max(waiting.time), calls: self.calls };
            while self.waiting.len() > SWARM_TIMES_MAX {
                self.thin_out();
            }
        }
        while self.held() > calls_max
            && let Some((_, waiting)) = self.waiting.pop_first()
        {
            self.calls_released = waiting.calls;
            self.forced = self.forced.max(waiting.time);
        }
    }

    /// A source has sent its watermark. `sources` is the number of partitions of events.
    pub(crate) fn moved(&mut self, sources: u32, partition: u32, watermark: i64) {
        if partition >= sources {
            return;
        }
        let known = self.watermarks.entry(partition).or_insert(watermark);
        *known = watermark.max(*known);
        self.newest = self.newest.max(watermark);
        let Some(slowest) = self.slowest(sources) else { return };
        while let Some(first) = self.waiting.first_entry().filter(|first| *first.key() <= slowest) {
            let waiting = first.remove();
            self.calls_released = waiting.calls;
            self.released = self.released.max(waiting.time);
        }
        if self.waiting.len() < SWARM_TIMES_MAX / 4 {
            self.step_ms /= 2;
        }
    }

    /// The least watermark; `None` while a source has sent none: it may be anywhere.
    pub(crate) fn slowest(&self, sources: u32) -> Option<i64> {
        let are_known = self.watermarks.len() >= sources as usize;
        self.watermarks.values().copied().min().filter(|_| are_known)
    }

    /// Calls that are kept for the sake of sources that lag.
    pub(crate) fn held(&self) -> u64 {
        if self.waiting.is_empty() { 0 } else { self.calls.saturating_sub(self.calls_released) }
    }

    /// Event time that every source has passed.
    pub(crate) const fn released(&self) -> EventTime {
        self.released
    }

    /// The task's time: held back by the slowest source, for as long as what is kept for its sake is not too much.
    pub(crate) fn time(&self) -> EventTime {
        self.released.max(self.forced)
    }

    /// Doubles the step. What falls together takes the later place: time moves later, never too early, and by no more than a step.
    fn thin_out(&mut self) {
        self.step_ms = self.step_ms.max(STEP_MS).saturating_mul(2);
        let mut time = EventTime(i64::MIN);
        for (until, waiting) in std::mem::take(&mut self.waiting) {
            time = time.max(waiting.time);
            self.waiting.insert(round_up(until, self.step_ms), Waiting { time, ..waiting });
        }
    }
}

/// The first multiple of a step that is no less.
const fn round_up(until: i64, step_ms: i64) -> i64 {
    until.saturating_add((step_ms - until.rem_euclid(step_ms)) % step_ms)
}

/// How far a task of the session stage has read, for its source watermark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Timestamp of the last record applied.
    pub(crate) recorded: EventTime,
    /// The same as of the last commit.
    pub(crate) committed: EventTime,
    /// When the task was last started, wall clock in Unix milliseconds: what a log knew of its end before says nothing of it.
    pub(crate) started_ms: i64,
    /// Source watermark that the next commit is to send.
    pub(crate) to_send: Option<i64>,
    /// The one sent last.
    pub(crate) sent: i64,
}

impl Uncommitted for Reading {
    /// No store keeps it.
    fn changes(&mut self, _: TaskId, _: &mut Vec<Change>) -> Result<(), StoreError> {
        Ok(())
    }

    fn committed(&mut self) {
        self.committed = self.recorded;
        self.sent = self.to_send.take().unwrap_or(self.sent);
    }

    fn rewind(&mut self) {
        self.recorded = self.committed;
        self.to_send = None;
    }
}

/// When a lane sends the watermarks of its partitions next.
#[derive(Debug, Default)]
pub(crate) struct SourcePacing {
    pub(crate) due_ms: u64,
    /// Pause after the last time. It doubles while nothing comes.
    pub(crate) pause_ms: u64,
    /// Offsets that its tasks had read up to.
    pub(crate) read: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1_000;

    fn time(sources: &Sources) -> i64 {
        sources.time().0
    }

    #[test]
    fn time_waits_until_every_source_has_passed_what_was_known() {
        let mut sources = Sources::after(EventTime(5));
        sources.note(EventTime(10_000), EventTime(70), 1, MAX);
        assert_eq!(time(&sources), 5);
        sources.moved(3, 0, 20_000);
        sources.moved(3, 1, 20_000);
        assert_eq!(time(&sources), 5, "the third has said nothing");
        sources.moved(3, 2, 9_000);
        assert_eq!(time(&sources), 5);
        sources.moved(3, 2, 10_000);
        assert_eq!(time(&sources), 70);
        // Recorded long before anything that a source has passed: no time of arrival. All must get further than anyone is.
        sources.note(EventTime(1), EventTime(90), 1, MAX);
        sources.moved(3, 2, 20_000);
        assert_eq!(time(&sources), 70);
        (0..3).for_each(|source| sources.moved(3, source, 21_000));
        assert_eq!(time(&sources), 90);
        // A source that goes back, or that there is not, moves nothing.
        sources.note(EventTime(1), EventTime(95), 1, MAX);
        sources.moved(3, 0, 22_000);
        sources.moved(3, 0, 3);
        sources.moved(3, 7, i64::MAX);
        assert_eq!((time(&sources), sources.slowest(3)), (90, Some(21_000)));
    }

    #[test]
    fn a_steady_lag_moves_time_steadily_and_in_bounded_memory() {
        let mut sources = Sources::default();
        for second in 1..10_000 {
            let now_ms = second * 1_000;
            sources.note(EventTime(now_ms), EventTime(now_ms), 1, u64::MAX);
            sources.moved(2, 0, now_ms);
            sources.moved(2, 1, now_ms - 1_000_000);
            assert!(sources.waiting.len() <= SWARM_TIMES_MAX);
        }
        let behind = 9_999_000 - time(&sources);
        assert!((1_000_000..1_200_000).contains(&behind), "{behind}");
    }

    #[test]
    fn what_is_kept_for_a_source_is_bounded() {
        let mut sources = Sources::default();
        sources.moved(2, 0, 1_000);
        for second in 1..=100 {
            sources.note(EventTime(second * 1_000), EventTime(second), 10, 500);
            assert!(sources.held() <= 500);
        }
        assert!((50..=90).contains(&time(&sources)), "{}", time(&sources));
        assert_eq!(sources.released(), EventTime(0));
        (0..2).for_each(|source| sources.moved(2, source, 200_000));
        assert_eq!((time(&sources), sources.held()), (100, 0));
    }
}
