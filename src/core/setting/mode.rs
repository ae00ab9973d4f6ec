//! What a detector may do, and what its block covers.

/// What a detector may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// Nothing; it does not run.
    #[default]
    Off,
    /// It decides, and its commands are published as shadow.
    Shadow,
    /// It nudges, and never blocks.
    Nudge,
    /// It nudges, and blocks what goes on.
    Block,
}

impl Mode {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::Nudge => "nudge",
            Self::Block => "block",
        }
    }

    /// Whether the detector runs at all.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockScope {
    /// Calls with the looping identity.
    #[default]
    Fingerprint,
    Tool,
    /// Every call of the agent.
    Session,
}
