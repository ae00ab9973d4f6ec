//! Events and commands over time, in bounded memory: slices that grow wider as the span grows longer.

use std::collections::BTreeMap;

use loopwarden_core::event::EventTime;

use crate::report::Said;

/// Slices kept while reading; a part of the whole holds as many.
const SLICES_MAX: usize = 512;
/// Narrowest slice. Milliseconds.
const WIDTH_MS_MIN: i64 = 1_000;
/// No slice grows beyond it: a third of a million years. Milliseconds.
const WIDTH_MS_MAX: i64 = 10_000_000_000_000_000;

/// What happened in a slice of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Events.
    pub events: u64,
    /// Nudges that count.
    pub nudges: u64,
    /// Blocks that count.
    pub blocks: u64,
    /// Commands to be looked at only.
    pub shadow: u64,
}

impl Slice {
    const fn add(&mut self, other: Self) {
        self.events += other.events;
        self.nudges += other.nudges;
        self.blocks += other.blocks;
        self.shadow += other.shadow;
    }
}

/// Slices in which something happened. Their width is `WIDTH_MS_MIN` times a power of two and they begin at its multiples, so that
/// the same events give the same slices, whatever parts they come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    width_ms: i64,
    slices: BTreeMap<i64, Slice>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_ms: WIDTH_MS_MIN, slices: BTreeMap::new() }
    }
}

impl Timeline {
    /// Notes an event.
    pub fn note_event(&mut self, time: EventTime) {
        self.note(time, Slice { events: 1, ..Slice::default() });
    }

    /// Notes a command.
    pub fn note_said(&mut self, said: &Said) {
        let Some(time) = said.time() else { return };
        let one = match (said.is_shadow, said.deed) {
            (_, crate::report::Deed::Unblock) => return,
            (true, _) => Slice { shadow: 1, ..Slice::default() },
            (false, crate::report::Deed::Nudge) => Slice { nudges: 1, ..Slice::default() },
            (false, crate::report::Deed::Block) => Slice { blocks: 1, ..Slice::default() },
        };
        self.note(time, one);
    }

    /// Whether any event said when it happened; commands alone are no timeline.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.slices.values().any(|slice| slice.events > 0)
    }

    fn note(&mut self, time: EventTime, slice: Slice) {
        self.slices.entry(time.0.div_euclid(self.width_ms)).or_default().add(slice);
        self.narrow(SLICES_MAX);
    }

    /// Adds what was noted elsewhere.
    pub fn add(&mut self, mut other: Self) {
        while self.width_ms < other.width_ms {
            self.double();
        }
        while other.width_ms < self.width_ms {
            other.double();
        }
        for (at, slice) in other.slices {
            self.slices.entry(at).or_default().add(slice);
        }
        self.narrow(SLICES_MAX);
    }

    /// The same in at most so many slices.
    #[must_use]
    pub fn in_slices(&self, slices_max: usize) -> Self {
        let mut fewer = self.clone();
        fewer.narrow(slices_max.max(1));
        fewer
    }

    fn narrow(&mut self, slices_max: usize) {
        // The years before and after 1970 never meet.
        while self.slices.len() > slices_max && self.width_ms < WIDTH_MS_MAX {
            self.double();
        }
    }

    fn double(&mut self) {
        self.width_ms *= 2;
        for (at, slice) in std::mem::take(&mut self.slices) {
            self.slices.entry(at.div_euclid(2)).or_default().add(slice);
        }
    }

    /// Width of a slice. Milliseconds.
    #[must_use]
    pub const fn width_ms(&self) -> i64 {
        self.width_ms
    }

    /// Number of each slice from the beginning of 1970, and what happened in it; ascending, empty ones left out.
    #[must_use]
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = (i64, Slice)> {
        self.slices.iter().map(|(at, slice)| (*at, *slice))
    }

    /// When a slice begins.
    #[must_use]
    pub const fn begin(&self, at: i64) -> EventTime {
        EventTime(at.saturating_mul(self.width_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_span_makes_wider_slices_and_loses_nothing() {
        let mut line = Timeline::default();
        for second in 0..5_000 {
            line.note_event(EventTime(1_000 * second - 7));
        }
        assert!(line.slices().count() <= SLICES_MAX && line.width_ms() == 16_000, "{}", line.width_ms());
        assert_eq!(line.slices().map(|(_, slice)| slice.events).sum::<u64>(), 5_000);
        assert!(line.in_slices(10).slices().count() <= 10);
        line.note_event(EventTime(i64::MIN));
        line.note_event(EventTime(i64::MAX));
        assert!(line.in_slices(1).slices().count() > 1, "no width holds all of it, and the search for one ends");
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let (mut whole, mut parts) = (Timeline::default(), [Timeline::default(), Timeline::default()]);
        for second in 0..3_000 {
            let time = EventTime(second * second * 10);
            whole.note_event(time);
            parts[usize::from(second > 2_000)].note_event(time);
        }
        let [mut sum, other] = parts;
        sum.add(other);
        assert_eq!(sum, whole);
    }
}
