//! Evidence: what a step brought, measured once when its outcome is known, and kept with it.
//!
//! What it means is seen against the steps before it: `news`.

use crate::identity::Sketch;

/// Answers of fewer words say little.
pub const LITTLE_WORDS: usize = 10;
/// Arguments that are compared one by one.
pub const ARGUMENTS_MAX: usize = 16;

/// What is kept of a step to compare it with others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// The values of its arguments.
    pub arguments: Sketch,
    /// A hash for each of its first [`ARGUMENTS_MAX`] arguments, ascending.
    pub values: Box<[u32]>,
    /// Its answer.
    pub answer: Sketch,
    /// The template of its failure; empty of a success.
    pub failure: Sketch,
    /// The words of the call, until its answer has come.
    pub own: Box<[u32]>,
    /// Share of what it brought that was not known. Percent.
    pub news: u8,
    /// Facts.
    pub marks: Marks,
}

impl Evidence {
    /// Bytes held, for the cache's budget: at most 520 of a completed step.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let hashes = self.arguments.hashes().len() + self.answer.hashes().len() + self.failure.hashes().len();
        if self == &Self::default() {
            0
        } else {
            size_of::<Self>() + (hashes + self.values.len() + self.own.len()) * size_of::<u32>()
        }
    }
}

/// Yes-or-no facts of evidence. The bits are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks(pub u16);

impl Marks {
    /// Its only argument is an id or a handle: a success looks at what runs elsewhere.
    pub const HANDLE: Self = Self(1);
    /// Its answer says little.
    pub const LITTLE: Self = Self(1 << 1);
    /// It took five seconds or more: time has passed.
    pub const SLOW: Self = Self(1 << 2);
    /// No call like it was made before.
    pub const NOVEL: Self = Self(1 << 3);
    /// It changed something: a success that says little, or of class `mutates`, that was not made before.
    pub const CHANGE: Self = Self(1 << 4);
    /// It brought nothing that was not known.
    pub const KNOWN: Self = Self(1 << 5);
    /// A call like it got the same answer before.
    pub const SAME: Self = Self(1 << 6);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets or clears `other`.
    pub const fn set(&mut self, other: Self, on: bool) {
        if on {
            self.0 |= other.0;
        } else {
            self.0 &= !other.0;
        }
    }
}
