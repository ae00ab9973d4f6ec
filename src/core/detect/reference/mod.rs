//! Rules of the systems that loopwarden reproduces, and what only they look at. The default policy runs none of them.

pub mod category;
pub mod dead_end;
pub mod exact_repeat;
pub mod exploration;
pub mod fleet_rate;
pub mod near_repeat;
pub mod oscillation;
pub mod outcome_repeat;
pub mod progress_matrix;
pub mod semantic_repeat;
pub mod shell_failures;
pub mod stagnation;
pub mod state_repeat;
pub mod stuck;
pub mod test_fix;
