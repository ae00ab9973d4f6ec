//! What a session remembers of its steps: one ring, bounded, and what is found in it without a search.

pub mod history;
pub mod index;
pub mod names;
pub mod remembered;
pub mod step;
pub mod streaks;
pub mod tally;
