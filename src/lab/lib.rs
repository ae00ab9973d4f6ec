//! Recorded events: files and transcripts as a log that ends, and the reports on what the engine makes of them.

pub mod file;
pub mod follow;
pub mod known_sessions;
pub mod report;

/// Policies tested like code: cases of a policy, events and expected answers, run on a lane that commits event by event.
pub mod cases {
    mod check;
    mod facts;
    mod format;
    pub(crate) mod stepped;

    pub use check::{Way, answers, run};
    pub use format::{BadCase, Case, Mismatch, parse};
    pub use stepped::{Answer, SteppedLane};
}

pub mod explain;
pub mod fit;
pub mod replay;
