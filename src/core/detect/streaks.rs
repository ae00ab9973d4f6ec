//! The scalars of the detectors: what cannot be read off the ring, because runs may be longer than it. All of one session.

use crate::event::EventTime;
use crate::identity::{Hash64, Hash128};
use crate::limits::EXPLORED_TURNS_MAX;

/// Scalars of every detector (page `detection`). A reset makes them the default again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Streaks {
    /// `exact_repeat`: the run of one call at the tail.
    pub exact: Run,
    /// `near_repeat`: the run of one fingerprint at the tail.
    pub near: Run,
    /// Tier that the run of this fingerprint has reached: within a run it never falls.
    pub near_tier: u8,
    /// `outcome_repeat`.
    pub outcome: OutcomeRun,
    /// `stagnation`, `stuck`.
    pub matrix: Matrix,
    /// `test_fix`: failing runs in a row.
    pub test_failures: u32,
    /// First failing run of that row.
    pub test_first: u64,
    /// `shell_failures`: failures in a row.
    pub shell_failures: u32,
    /// First of that row.
    pub shell_first: u64,
    /// `text_only`: text turns in a row.
    pub text_turns: u32,
    /// Turn of the last of them + 1; 0 = unknown.
    pub text_turn: u64,
    /// `exploration`: reading before the first edit.
    pub exploration: Explored,
}

/// Equal calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Run {
    /// What is repeated.
    pub hash: Hash128,
    /// How often, transparent steps left out. Not capped by the ring.
    pub length: u32,
    /// The same, back to the last different answer (`result_aware`).
    pub same_answer: u32,
    /// Newest observed outcome in the run.
    pub outcome: Hash64,
    /// Sequence of the first step of the run.
    pub first: u64,
    /// Sequence of the first step that `same_answer` counts.
    pub same_first: u64,
}

/// `outcome_repeat`: equal answers to equal calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutcomeRun {
    /// Call and outcome.
    pub key: Hash64,
    /// How often since the last finding.
    pub count: u32,
    /// Findings of this key in a row.
    pub triggers: u32,
    /// First step of the row.
    pub first: u64,
}

/// The progress matrix (IronCurtain).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Matrix {
    /// Seen approach, seen outcome: in a row.
    pub stagnation: u32,
    /// New approach, seen outcome: in a row.
    pub stuck: u32,
    /// Step that began the stagnation streak.
    pub stagnation_first: u64,
    /// Step that began the stuck streak.
    pub stuck_first: u64,
    /// Fingerprint of the step that began the stagnation streak.
    pub stagnation_fingerprint: Hash128,
    /// Class of the last step.
    pub category: Category,
}

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

/// `exploration`: only before the first edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explored {
    /// A call of class `mutates` was made: over.
    pub has_edited: bool,
    /// Distinct read targets.
    pub files: u32,
    /// Turns so far.
    pub turns: u32,
    /// Last turn + 1; 0 = unknown.
    pub last_turn: u64,
    /// New targets in each of the latest turns, newest first.
    pub slice: [u8; EXPLORED_TURNS_MAX],
    /// First read.
    pub first: u64,
    /// Time of the last read.
    pub last_time: EventTime,
}
