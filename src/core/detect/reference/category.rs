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
        // A class of version 0.1, without a name of its own now.
        let number = if number == 5 { 0 } else { number };
        [Self::None, Self::FullProgress, Self::WorldChanged, Self::Stuck, Self::FullStagnation]
            .into_iter()
            .find(|category| category.number() == number)
    }
}
