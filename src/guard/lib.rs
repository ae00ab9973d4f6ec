//! The guard: what lets an agent obey commands with one question per call.
//!
//! A caller sends a [`Check`] before and after each tool call and gets an [`Answer`]. [`Guard`] knows the verdicts in force, whose call each
//! of them binds, and which nudges each agent had. Nothing here reads a clock, a file or a socket.

mod agents;
mod counts;
mod decide;
mod guard;
mod options;
mod staleness;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use agents::agent::Agent;
pub use counts::Counts;
pub use decide::{Phase, WithoutChannel};
pub use guard::{Guard, Opened};
pub use options::{Options, Record};
pub use staleness::{Knowledge, STALE_AFTER_MS};
pub use wire::answer::{Action, Answer, Decision, Dropped, Fail, Freshness, Placement, Reason, Source};
pub use wire::capabilities::Capabilities;
pub use wire::check::{BadCheck, Check, Client, DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS};

/// Longest text for a model; a longer one is cut. Characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;
