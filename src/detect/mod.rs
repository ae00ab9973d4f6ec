//! One detector per file, all reading the one bounded [`History`]. `observe` functions answer with at most one [`Finding`].

mod history;
mod index;
mod names;
mod step;
mod streaks;

pub use history::History;
pub use index::FingerprintIndex;
pub use names::ToolId;
pub use names::ToolNames;
pub use step::Flags;
pub use step::Step;
pub use streaks::Category;
pub use streaks::Explored;
pub use streaks::Matrix;
pub use streaks::OutcomeRun;
pub use streaks::Run;
pub use streaks::Streaks;

use crate::identity::Hash64;
use crate::policy::Detector;
use crate::policy::Mode;

/// A detector's yes at one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Who.
    pub detector: Detector,
    /// What it may do.
    pub mode: Mode,
    /// Loop identity (`detectors.md` 5.2).
    pub identity: Hash64,
    /// How many.
    pub count: u32,
    /// From how many on.
    pub threshold: u32,
    /// Count of a block under this tool's factor; 0 = never.
    pub block_at: u32,
    /// Window the count was made in: steps, or ms for the rates; 0 = a run.
    pub window: u64,
    /// 1 … 3 for detectors with tiers, else 0.
    pub tier: u8,
    /// 0 … 1.
    pub confidence: f64,
    /// Class of the step in the progress matrix.
    pub category: Category,
    /// First step that was counted.
    pub first: u64,
    /// Last step that was counted.
    pub last: u64,
    /// The current step takes part. One that is not fresh is recorded, never published.
    pub is_fresh: bool,
    /// Only a signal: recorded, counted as evidence, never the reason of a command.
    pub is_signal: bool,
    /// When its block would pass again by itself (`call_rate`).
    pub free_at: Option<crate::event::EventTime>,
}
