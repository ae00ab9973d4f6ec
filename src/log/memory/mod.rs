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

pub use broker::MemoryBroker;
pub use broker::MemoryConfig;
pub use broker::MemoryTopic;
pub use broker::OpenTransaction;
pub use fault::Fault;
pub use fault::Faults;
pub use fault::Step;
pub use lane::MemoryLog;
pub use partition::MemoryRecord;
