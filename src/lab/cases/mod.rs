//! Policies tested like code: cases of a policy, events and expected answers, run on the production machines.

mod bench;
mod check;
mod facts;
mod format;

pub use bench::{Answer, Bench};
pub use check::{Way, answers, run};
pub use format::{BadCase, Case, Mismatch, parse};
