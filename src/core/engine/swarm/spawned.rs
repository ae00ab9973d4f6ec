//! What is seen of agents that were started in a tree: sums of panes, which merge in any order.

use std::collections::BTreeMap;

use crate::detect::Brief;
use crate::event::EventTime;
use crate::identity::{Hash64, Sketch};
use crate::limits::{BRIEFS_ALIKE_PERCENT, BRIEFS_MAX};

/// What was seen in one pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnedWindow {
    /// Event time at which the pane begins.
    pub start: EventTime,
    pub spawned: Spawned,
}

impl SpawnedWindow {
    /// A pane in which nothing was seen yet.
    #[must_use]
    pub fn beginning(start: EventTime) -> Self {
        Self { start, spawned: Spawned::default() }
    }
}

/// What was seen of agents that were started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spawned {
    /// Agents that have shown themselves for the first time.
    pub began: u32,
    /// Agents that have failed, or brought what was known.
    pub vain: u32,
    /// Levels that the deepest of them is below the root.
    pub depth: u32,
    /// By the hash of their words: the [`BRIEFS_MAX`] smallest, so that the order in which they come changes nothing.
    pub briefs: BTreeMap<Hash64, SeenBrief>,
    /// Event time of the last.
    pub last: EventTime,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenBrief {
    /// Agents that were started with it.
    pub times: u32,
    pub sketch: Sketch,
}

impl Spawned {
    /// An agent is started with a brief.
    pub fn note(&mut self, brief: &Brief) {
        self.add_brief(brief.words, &SeenBrief { times: 1, sketch: brief.sketch });
    }

    /// Adds what was seen elsewhere, or later.
    pub fn add(&mut self, other: &Self) {
        self.began = self.began.saturating_add(other.began);
        self.vain = self.vain.saturating_add(other.vain);
        self.depth = self.depth.max(other.depth);
        self.last = self.last.max(other.last);
        for (words, seen) in &other.briefs {
            self.add_brief(*words, seen);
        }
    }

    /// Adds agents that had a brief of these words.
    pub fn add_brief(&mut self, words: Hash64, seen: &SeenBrief) {
        let known = self.briefs.entry(words).or_insert(SeenBrief { times: 0, sketch: seen.sketch });
        known.times = known.times.saturating_add(seen.times);
        if self.briefs.len() > BRIEFS_MAX {
            self.briefs.pop_last();
        }
    }

    /// Agents with the words of an earlier brief.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.briefs.values().fold(0, |sum, seen| sum.saturating_add(seen.times.saturating_sub(1)))
    }

    /// Agents whose brief is nearly that of another one.
    #[must_use]
    pub fn alike(&self) -> u32 {
        let is_alike = |seen: &SeenBrief| {
            let others = self.briefs.values().filter(|other| !std::ptr::eq(*other, seen));
            let mut near = others.filter(|other| seen.sketch.view().is_alike(other.sketch.view(), BRIEFS_ALIKE_PERCENT));
            seen.times > 1 || near.next().is_some()
        };
        self.briefs.values().filter(|seen| is_alike(seen)).fold(0, |sum, seen| sum.saturating_add(seen.times))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brief(number: u64) -> Brief {
        Brief { words: Hash64(number), sketch: Sketch::of_hashes(vec![1, 2, 3, number as u32]) }
    }

    proptest! {
        #[test]
        fn sums_merge_in_any_order_and_stay_bounded(numbers in proptest::collection::vec(0_u64..100, 0..200), cut in 0_usize..200) {
            let (mut whole, mut one, mut two) = (Spawned::default(), Spawned::default(), Spawned::default());
            for (at, number) in numbers.iter().enumerate() {
                whole.note(&brief(*number));
                if at < cut { &mut one } else { &mut two }.note(&brief(*number));
            }
            let (mut forward, mut backward) = (one.clone(), two.clone());
            forward.add(&two);
            backward.add(&one);
            prop_assert_eq!(&forward, &backward);
            prop_assert_eq!(&forward, &whole);
            prop_assert!(whole.briefs.len() <= BRIEFS_MAX);
        }
    }

    #[test]
    fn who_had_words_that_others_had_repeats_and_nearly_the_same_are_alike() {
        let mut seen = Spawned::default();
        for number in [1, 1, 1, 2] {
            seen.note(&brief(number));
        }
        let other = Brief { words: Hash64(9), sketch: Sketch::of_hashes(vec![70, 80, 90]) };
        seen.note(&other);
        assert_eq!((seen.repeats(), seen.alike()), (2, 4));
        seen.briefs.clear();
        seen.note(&brief(1));
        seen.note(&brief(1_000));
        assert_eq!((seen.repeats(), seen.alike()), (0, 0));
    }
}
