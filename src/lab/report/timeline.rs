//! Events and commands over time, in bounded memory: the longer the span, the wider the slices.

use std::collections::BTreeMap;

use loopwarden_core::event::EventTime;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::{report::PublishedCommand, report::command::CommandCounts};

/// Slices kept while reading; a part of the whole holds as many.
const SLICES_MAX: usize = 512;
/// Narrowest slice. Milliseconds.
const WIDTH_MS_MIN: i64 = 1_000;
/// No slice grows beyond it: a third of a million years. Milliseconds.
const WIDTH_MS_MAX: i64 = 10_000_000_000_000_000;

/// Events and commands in a slice of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    pub events: u64,
    pub commands: CommandCounts,
}

impl Slice {
    const fn add(&mut self, other: Self) {
        self.events += other.events;
        self.commands.add(other.commands);
    }
}

/// The slices that are not empty. Their width is `WIDTH_MS_MIN` times a power of two, and they begin at its multiples: the same
/// events give the same slices, in whatever parts they come.
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
    pub(super) fn note_event(&mut self, time: EventTime) {
        self.note(time, Slice { events: 1, ..Slice::default() });
    }

    pub(super) fn note_command(&mut self, command: &PublishedCommand) {
        let mut slice = Slice::default();
        slice.commands.note(command.kind, command.is_shadow);
        if let Some(time) = command.issued_at.filter(|_| slice != Slice::default()) {
            self.note(time, slice);
        }
    }

    /// Whether any event has a time; commands alone are no timeline.
    pub fn has_events(&self) -> bool {
        self.slices.values().any(|slice| slice.events > 0)
    }

    fn note(&mut self, time: EventTime, slice: Slice) {
        self.slices.entry(time.0.div_euclid(self.width_ms)).or_default().add(slice);
        self.narrow(SLICES_MAX);
    }

    pub(super) fn add(&mut self, mut other: Self) {
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

    pub const fn width_ms(&self) -> i64 {
        self.width_ms
    }

    /// The slices with their numbers from the beginning of 1970, ascending.
    pub fn slices(&self) -> impl DoubleEndedIterator<Item = (i64, Slice)> {
        self.slices.iter().map(|(at, slice)| (*at, *slice))
    }

    pub const fn begin(&self, at: i64) -> EventTime {
        EventTime(at.saturating_mul(self.width_ms))
    }
}

impl Serialize for Timeline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let slices = self.slices().map(|(at, slice)| {
            let CommandCounts { nudges, blocks, shadow } = slice.commands;
            json!({ "from": self.begin(at).to_rfc3339(), "events": slice.events, "nudges": nudges, "blocks": blocks, "shadow": shadow })
        });
        json!({ "slice_ms": self.width_ms, "slices": slices.collect::<Vec<_>>() }).serialize(serializer)
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
