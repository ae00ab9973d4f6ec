//! How detectors count steps: those of a window, those of one kind in a row, and equal ones in a row.

use crate::detect::{steps::history::History, steps::step::Step};
use crate::identity::Hash128;

/// Steps that were counted, and where they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Number of steps. A row may be longer than the ring.
    pub count: u32,
    /// Sequence of the earliest of them.
    pub first: u64,
}

impl Tally {
    /// Counts those steps of a window, newest first, that have something in common with the newest step of all.
    pub fn of_window<'a>(window: impl Iterator<Item = &'a Step>, newest: &Step, is_counted: impl Fn(&Step) -> bool) -> Self {
        let none = Self { count: 0, first: newest.sequence };
        window.filter(|step| is_counted(step)).fold(none, |counted, step| Self { count: counted.count + 1, first: step.sequence })
    }

    /// Counts one step more at the end of a row, which steps of other kinds do not interrupt.
    pub const fn extend(&mut self, sequence: u64) {
        if self.count == 0 {
            self.first = sequence;
        }
        self.count = self.count.saturating_add(1);
    }
}

/// Equal steps in a row. Transparent ones are not among them, and do not interrupt it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// Hash that the steps share.
    pub hash: Hash128,
    pub steps: Tally,
}

impl Run {
    /// Takes a counted call at the tail.
    pub fn advance(&mut self, hash: Hash128, sequence: u64) {
        if self.hash != hash {
            *self = Self { hash, ..Self::default() };
        }
        self.steps.extend(sequence);
    }

    /// Counts again what the ring holds: its newest counted steps that share a hash. For when a step turned out not to count after all.
    pub fn rebuild(&mut self, history: &History, hash: impl Fn(&Step) -> Hash128) {
        *self = Self::default();
        let Some(newest) = history.counted_back().next() else { return };
        self.hash = hash(newest);
        self.steps = Tally::of_window(history.counted_back().take_while(|step| hash(step) == self.hash), newest, |_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_anew_with_another_hash_and_is_found_again_in_the_ring() {
        let mut history = History::new(8);
        let mut run = Run::default();
        for hash in [1, 2, 2, 2] {
            run.advance(Hash128(hash), history.next_sequence());
            history.push(Step { call: Hash128(hash), ..Step::default() }, "t");
        }
        assert_eq!(run, Run { hash: Hash128(2), steps: Tally { count: 3, first: 1 } });
        let mut again = Run::default();
        again.rebuild(&history, |step| step.call);
        assert_eq!(again, run);
        again.rebuild(&History::new(8), |step| step.call);
        assert_eq!(again, Run::default());
    }
}
