//! Claims that only a real broker can decide: transactions, fencing, rebalances, lost answers.
//!
//! `broker.rs` says where the broker comes from. Each test has topics of its own; all share one broker.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "all of this binary is test code; the lints' own exemption knows test functions only"
)]

mod broker;
mod changelog;
mod commit;
mod contract;
mod members;
mod proxy;
mod run;
mod swarm;
mod topics;
mod unknown;
mod world;

#[path = "../common/swarm_cases.rs"]
mod swarm_cases;

#[path = "../common/log_contract.rs"]
mod log_contract;
