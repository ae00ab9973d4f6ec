//! Nudges, blocks and shadows: what the commands of a row of a report come to.

use crate::report::{Deed, Said};

/// Commands about one thing, by what they were. An `unblock` is none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Nudges that count.
    pub(super) nudges: u64,
    /// Blocks that count.
    pub(super) blocks: u64,
    /// Commands to be looked at only.
    pub(super) shadow: u64,
}

impl Tally {
    pub(super) fn note(&mut self, said: &Said) {
        match (said.is_shadow, said.deed) {
            (true, _) => self.shadow += 1,
            (false, Deed::Nudge) => self.nudges += 1,
            (false, Deed::Block) => self.blocks += 1,
            (false, Deed::Unblock) => {}
        }
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.nudges += other.nudges;
        self.blocks += other.blocks;
        self.shadow += other.shadow;
    }
}
