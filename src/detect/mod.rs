//! One detector per file, all reading the one bounded [`History`]. `observe` functions answer with at most one [`Finding`].

pub mod call_rate;
pub mod dead_end;
pub mod exact_repeat;
pub mod exploration;
mod finding;
mod history;
mod index;
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

pub use finding::Family;
pub use finding::Finding;
pub use finding::halves;
pub use finding::loop_identity;
pub use finding::repeat_identity;
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
