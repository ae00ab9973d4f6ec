//! What a detector may do, and what its block covers.

use crate::setting::{OneOf, one_of, words};

/// What a detector may do, as a setting.
pub(crate) const MODE: OneOf<Mode> = one_of(Mode::WORDS);

/// What a block covers, as a setting.
pub(crate) const BLOCK_SCOPE: OneOf<BlockScope> = one_of(BlockScope::WORDS);

words! {
    /// What a detector may do.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Mode {
        /// Nothing; it does not run.
        Off = "off",
        /// It decides, and its commands are published as shadow.
        Shadow = "shadow",
        /// It nudges, and never blocks.
        Nudge = "nudge",
        /// It nudges, and blocks what goes on.
        Block = "block",
    }
}

impl Mode {
    /// Whether the detector runs at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

words! {
    pub enum BlockScope {
        /// Calls with the looping identity.
        Fingerprint = "fingerprint",
        Tool = "tool",
        /// Every call of the agent.
        Session = "session",
    }
}
