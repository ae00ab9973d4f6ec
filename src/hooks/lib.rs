//! Hooks of coding agents: what an agent tells becomes a native event, and an answer of the guard becomes what the agent reads.
//!
//! An agent hands one JSON object to its hook before and after each call. [`read`] makes an event of it, and says whether the agent
//! waits for a decision. [`write()`] puts the decision into the words of that agent. What cannot be read is answered with "no opinion":
//! a guard that does not understand stops nobody.

mod agents;
mod contract;
mod hook_event;
mod hook_message;
mod native;
mod object;
#[cfg(test)]
mod recorded;
mod say;

pub use contract::{AGENTS, Contract, EXIT_CODE, contract, read, write};
pub use hook_event::HookEvent;

/// Longest body of a hook that is read. Bytes. An edit of a large file is a few hundred kilobytes.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
