//! Policies tested like code: cases of a policy, events and expected answers, run on a lane that commits event by event.

mod check;
mod facts;
mod format;
mod stepped;

pub use check::{Way, answers, run};
pub use format::{BadCase, Case, Mismatch, parse};
pub use stepped::{Answer, SteppedLane};
