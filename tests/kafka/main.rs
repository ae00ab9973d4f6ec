//! Claims that only a real broker can decide: transactions, fencing, rebalances, lost answers.
//!
//! `broker.rs` says where the broker comes from. Each test has topics of its own; all share one broker.

mod broker;
mod changelog;
mod commit;
mod members;
mod topics;
mod world;
