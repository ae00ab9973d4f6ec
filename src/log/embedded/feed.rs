//! The outputs that readers follow.

/// Outputs that readers follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Feed {
    Commands = 1,
    DeadLetters = 2,
}

impl Feed {
    /// Every feed.
    pub const ALL: [Self; 2] = [Self::Commands, Self::DeadLetters];
}
