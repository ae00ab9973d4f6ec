//! The guard: what lets an agent obey commands with one question per call.
//!
//! A caller sends a [`Check`] before and after each tool call and gets an [`Answer`]. [`Guard`] knows the verdicts in force, whose call each
//! of them binds, and what each agent was told. Nothing here reads a clock, a file or a socket.

mod aged;
mod answer;
mod can;
mod check;
mod decide;
mod groups;
mod guard;
mod lost;
mod matching;
mod message;
mod pairs;
mod refusals;
mod rewrite;
mod rows;
mod shares;
mod terms;
#[cfg(test)]
mod tests;
mod told;
mod verdict;
mod who;

pub use answer::{Action, Answer, Decision, Dropped, Freshness, Placement, Reason, Source};
pub use can::Can;
pub use check::{BadCheck, Check, Client, DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS};
pub use decide::{Phase, WithoutChannel};
pub use guard::{Guard, Opened};
pub use terms::{Counts, Knowledge, Options, Record, STALE_AFTER_MS};
pub use who::Who;

/// Longest text for a model; a longer one is cut. Characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;
