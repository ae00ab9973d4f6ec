//! Kinds of settings: what a value must be, what it becomes, and how its range reads in the documentation.

use crate::identity::{MaskSet, Phrases};
use crate::limits::POLICY_MS_MAX;
use crate::setting::mode::{BlockScope, Mode};
use crate::setting::table::Key;

/// How a setting is read and documented.
pub(crate) trait Kind {
    /// What a value of a file becomes.
    type Of;

    /// Checks the value of a key; one that is out of range is a problem, and the answer is in range nevertheless.
    fn read(&self, key: &mut Key<'_>) -> Self::Of;

    /// The range, for people to read.
    fn range(&self) -> String;
}

pub(crate) struct Flag;

impl Kind for Flag {
    type Of = bool;

    fn read(&self, key: &mut Key<'_>) -> bool {
        key.flag()
    }

    fn range(&self) -> String {
        "`true`, `false`".to_owned()
    }
}

pub(crate) struct OneOf<T: 'static>(&'static [(&'static str, T)]);

pub(crate) const fn one_of<T>(words: &'static [(&'static str, T)]) -> OneOf<T> {
    OneOf(words)
}

impl<T: Copy + Default> Kind for OneOf<T> {
    type Of = T;

    fn read(&self, key: &mut Key<'_>) -> T {
        key.choice(self.0)
    }

    fn range(&self) -> String {
        self.0.iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
    }
}

/// What a detector may do.
pub(crate) const MODE: OneOf<Mode> =
    OneOf(&[("off", Mode::Off), ("shadow", Mode::Shadow), ("nudge", Mode::Nudge), ("block", Mode::Block)]);

pub(crate) const BLOCK_SCOPE: OneOf<BlockScope> =
    OneOf(&[("fingerprint", BlockScope::Fingerprint), ("tool", BlockScope::Tool), ("session", BlockScope::Session)]);

/// A count: an integer from `least` to what 31 bits hold.
pub(crate) struct Count {
    least: u32,
}

/// A count: an integer from `least` to what 31 bits hold.
pub(crate) const fn count(least: u32) -> Count {
    Count { least }
}

impl Kind for Count {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        let value = key.integer();
        key.check.count(&key.path, value, self.least)
    }

    fn range(&self) -> String {
        format!("from {}", self.least)
    }
}

/// A count with an upper bound.
pub(crate) struct Steps {
    least: i64,
    most: i64,
}

/// A count with an upper bound.
pub(crate) const fn steps(least: i64, most: usize) -> Steps {
    Steps { least, most: most as i64 }
}

impl Kind for Steps {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        let value = key.integer();
        key.check.integer(&key.path, value, self.least, self.most) as u32
    }

    fn range(&self) -> String {
        format!("{} to {}", self.least, self.most)
    }
}

pub(crate) struct Chars(Steps);

pub(crate) const fn chars(least: i64, most: usize) -> Chars {
    Chars(steps(least, most))
}

impl Kind for Chars {
    type Of = usize;

    fn read(&self, key: &mut Key<'_>) -> usize {
        self.0.read(key) as usize
    }

    fn range(&self) -> String {
        self.0.range()
    }
}

/// Milliseconds from `least` on.
pub(crate) struct Millis {
    least: i64,
}

/// Milliseconds from `least` on.
pub(crate) const fn millis(least: i64) -> Millis {
    Millis { least }
}

impl Kind for Millis {
    type Of = i64;

    fn read(&self, key: &mut Key<'_>) -> i64 {
        let value = key.integer();
        key.check.integer(&key.path, value, self.least, POLICY_MS_MAX)
    }

    fn range(&self) -> String {
        format!("from {}, ms", self.least)
    }
}

/// A number from 0 to 1.
pub(crate) struct Share;

impl Kind for Share {
    type Of = f64;

    fn read(&self, key: &mut Key<'_>) -> f64 {
        let value = key.float();
        key.check.share(&key.path, value)
    }

    fn range(&self) -> String {
        "0 to 1".to_owned()
    }
}

/// Steps that are looked at: at most as many as are kept.
pub(crate) struct Window;

impl Kind for Window {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        let (steps, history) = (key.integer(), key.shared.history_steps);
        let path = &key.path;
        key.check.rule(path, steps <= history, || format!("{path} is {steps}, but must not be above history_steps ({history})"));
        key.check.count(path, steps, 1)
    }

    fn range(&self) -> String {
        "1 to `history_steps`".to_owned()
    }
}

/// A count that is never reached (0), or not before the threshold.
struct NotBelowThreshold;

impl Kind for NotBelowThreshold {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        let (count, threshold) = (key.integer(), key.beside("threshold"));
        let (path, holds) = (&key.path, count <= 0 || count >= threshold);
        key.check.rule(path, holds, || format!("{path} is {count}, but must not be below threshold ({threshold})"));
        key.check.count(path, count, 0)
    }

    fn range(&self) -> String {
        "0, or from `threshold`".to_owned()
    }
}

/// The same for the count of a block. A mode that places no block does not hinder a change of the threshold.
pub(crate) struct BlockAt;

impl Kind for BlockAt {
    type Of = u32;

    fn read(&self, key: &mut Key<'_>) -> u32 {
        if matches!(key.text_beside("mode"), "block" | "shadow") { NotBelowThreshold.read(key) } else { count(0).read(key) }
    }

    fn range(&self) -> String {
        NotBelowThreshold.range()
    }
}

/// Names, in the order given.
pub(crate) struct NamesInOrder;

impl Kind for NamesInOrder {
    type Of = Vec<String>;

    fn read(&self, key: &mut Key<'_>) -> Vec<String> {
        let names = key.texts();
        key.check.names_in_order(&key.path, &names)
    }

    fn range(&self) -> String {
        "names".to_owned()
    }
}

/// The same, to be searched for in texts.
pub(crate) struct PhrasesInOrder;

impl Kind for PhrasesInOrder {
    type Of = Phrases;

    fn read(&self, key: &mut Key<'_>) -> Phrases {
        NamesInOrder.read(key).into()
    }

    fn range(&self) -> String {
        NamesInOrder.range()
    }
}

/// Exact names of tools; sorted.
pub(crate) struct Tools;

impl Kind for Tools {
    type Of = Vec<String>;

    fn read(&self, key: &mut Key<'_>) -> Vec<String> {
        let names = key.texts();
        key.check.tools(&key.path, &names)
    }

    fn range(&self) -> String {
        "names of tools".to_owned()
    }
}

/// Whether the masks of the policy are applied.
pub(crate) struct MasksOrNone;

impl Kind for MasksOrNone {
    type Of = MaskSet;

    fn read(&self, key: &mut Key<'_>) -> MaskSet {
        if key.flag() { key.shared.masks.clone() } else { MaskSet::none() }
    }

    fn range(&self) -> String {
        Flag.range()
    }
}
