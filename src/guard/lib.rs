//! The guard: what lets an agent obey commands with one question per call.
//!
//! A caller sends a [`Check`] before and after each tool call and gets an [`Answer`]. Nothing here reads a clock, a file or a socket.

mod answer;
mod can;
mod check;

pub use answer::{Action, Answer, Decision, Dropped, Freshness, Placement, Reason, Source};
pub use can::Can;
/// Longest text for a model; a longer one is cut. Characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;

pub use check::{BadCheck, Check, Client, DEADLINE_DEFAULT_MS, DEADLINE_MAX_MS};
