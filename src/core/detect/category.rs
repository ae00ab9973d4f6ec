//! The classes of steps that `stagnation` and `stuck` are made of.

/// Class of a step in the progress matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Category {
    /// No step yet, or one that takes no part.
    #[default]
    None,
    /// New approach, new outcome.
    FullProgress,
    /// Seen approach, new outcome.
    WorldChanged,
    /// New approach, seen outcome.
    Stuck,
    /// Seen approach, seen outcome.
    FullStagnation,
    /// New approach, and an outcome that says nothing, or a change that worked.
    Neutral,
}

impl Category {
    /// The name in evidence.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FullProgress => "full_progress",
            Self::WorldChanged => "world_changed",
            Self::Stuck => "stuck",
            Self::FullStagnation => "full_stagnation",
            Self::Neutral => "neutral",
        }
    }

    /// Its number, as stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The category with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::None, Self::FullProgress, Self::WorldChanged, Self::Stuck, Self::FullStagnation, Self::Neutral]
            .into_iter()
            .find(|category| category.number() == number)
    }
}
