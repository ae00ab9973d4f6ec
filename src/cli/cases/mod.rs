//! Policies tested like code: cases of a policy, events and expected answers, run on the production machines.

mod bench;
mod check;
mod facts;
mod format;

pub use bench::Answer;
pub use bench::Bench;
pub use check::Mismatch;
pub use check::Way;
pub use check::answers;
pub use check::run;
pub use format::BadCase;
pub use format::Case;
pub use format::parse;
