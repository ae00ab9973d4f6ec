//! One detector per file, all reading the one bounded [`History`]. `observe` functions answer with at most one [`Finding`].

pub mod call_rate;
pub mod dead_end;
pub mod exact_repeat;
pub mod exploration;
pub mod failing_run;
mod finding;
mod history;
mod index;
mod moving;
mod names;
pub mod near_repeat;
pub mod oscillation;
pub mod outcome_repeat;
pub mod progress_matrix;
pub mod semantic_repeat;
pub mod shell_failures;
pub mod state_repeat;
mod step;
mod streaks;
pub mod test_fix;
pub mod text_only;
mod unproductive;

pub use finding::{Family, Finding, halves, loop_identity, repeat_identity};
pub use history::History;
pub use index::FingerprintIndex;
pub use moving::{answers_move, brings_receipts, comes_again, is_mostly_waiting, is_patient, is_unproven, was_changed_since};
pub use names::{ToolId, ToolNames};
pub use step::{Flags, Step};
pub use streaks::{Category, Explored, Matrix, OutcomeRun, Run, Streaks};
pub use unproductive::got_nowhere;
