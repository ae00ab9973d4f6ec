//! The classes of steps that `stagnation` and `stuck` are made of.

/// Class of a step in the progress matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Category {
    /// No step yet, or one that takes no part.
    #[default]
    None,
    /// The approach is new, and so is the outcome.
    FullProgress,
    /// The approach was seen, the outcome is new.
    WorldChanged,
    /// The approach is new, the outcome was seen.
    Stuck,
    /// The approach was seen, and so was the outcome.
    FullStagnation,
}

impl Category {
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
