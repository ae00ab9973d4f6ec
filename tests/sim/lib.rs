//! A broker in memory for tests and simulation: transactions, groups, pending offsets, faults; no threads, no clock, no network.
//!
//! It is stricter than a broker where that costs nothing (a generation that moved on refuses a commit at once) and as loose as
//! one where that hurts (answers get lost, requests arrive late). Time moves only by [`MemoryBroker::advance`].

mod broker;
mod changelog;
mod fault;
mod group;
mod lane;
mod partition;
mod transaction;

pub use broker::{MemoryBroker, MemoryConfig, MemoryTopic, OpenTransaction};
pub use fault::{Fault, Faults, Step};
pub use lane::MemoryLog;
pub use partition::MemoryRecord;
