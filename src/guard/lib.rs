//! The guard: what lets an agent obey commands with one question per call.
//!
//! A caller sends a [`Check`] before and after each tool call and gets an [`Answer`]. [`Guard`] knows the verdicts in force, whose call each
//! of them binds, and which nudges each agent had. Nothing here reads a clock, a file or a socket.

mod agent;
/// What is remembered of each agent: nudges that were handed out, calls that were refused, calls that are open.
mod agents {
    pub(crate) mod calls;
    pub(crate) mod deliveries;
}
mod counts;
mod decide;
mod guard;
mod keeping;
mod options;
mod staleness;
/// The verdicts in force, found by subject or by call: bounded, with a share for each tenant.
mod table {
    pub(crate) mod kept;
    pub(crate) mod lost;
    pub(crate) mod lru;
    pub(crate) mod matching;
    pub(crate) mod place;
    pub(crate) mod rows;
    pub(crate) mod shares;
}
#[cfg(test)]
mod tests;
/// What comes over the wire and goes back: questions, answers, verdicts, events.
mod wire {
    pub(crate) mod answer;
    pub(crate) mod capabilities;
    pub(crate) mod check;
    pub(crate) mod message;
    pub(crate) mod verdict;
}

pub use agent::Agent;
pub use counts::Counts;
pub use decide::{Phase, WithoutChannel};
pub use guard::{Guard, Opened};
pub use keeping::Revision;
pub use options::{Options, Record};
pub use staleness::{Knowledge, STALE_AFTER_MS};
pub use table::kept::{KEPT_BYTES_MAX, Kept, NotKept};
pub use wire::answer::{Action, Answer, Decision, Dropped, Fail, Freshness, Placement, Reason, Source};
pub use wire::capabilities::Capabilities;
pub use wire::check::{BadCheck, Check, Client, DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS};

/// Longest text for a model; a longer one is cut. Characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;
