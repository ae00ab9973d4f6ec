//! Claims that only a real broker can decide: transactions, fencing, rebalances, lost answers.
//!
//! `broker.rs` says where the broker comes from. Each test has topics of its own; all share one broker.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "all of this binary is test code; the lints' own exemption knows test functions only"
)]

mod answers;
mod broker;
mod brokers;
mod certificates;
mod changelog;
mod closing;
mod commit;
mod contract;
mod damage;
#[path = "../common/environment.rs"]
mod environment;
mod grown;
mod growth;
mod guard;
mod hostile;
mod intake;
mod issuer;
mod members;
mod oauth;
mod processes;
mod protocol;
mod proxy;
mod ready;
mod replay;
mod reset;
mod restart;
mod restore;
mod run;
mod secured;
mod security;
mod surface;
mod swarm;
mod takeover;
mod topics;
mod unknown;
mod webhooks;
mod world;

#[path = "../common/bounded.rs"]
mod bounded;

#[path = "../common/receiver.rs"]
#[expect(dead_code, reason = "shared with the tests without a broker")]
mod receiver;

#[path = "../common/swarm_cases.rs"]
mod swarm_cases;

#[path = "../common/views.rs"]
mod views;

#[path = "../common/log_contract.rs"]
mod log_contract;

#[path = "../chaos/auditor.rs"]
mod auditor;
#[path = "../chaos/feeder.rs"]
#[expect(dead_code, reason = "shared with the kill loop")]
mod feeder;
#[path = "../chaos/fleet.rs"]
mod fleet;
#[path = "../chaos/outcome.rs"]
#[expect(dead_code, reason = "shared with the kill loop of the embedded log")]
mod outcome;
#[path = "../chaos/process.rs"]
#[expect(dead_code, reason = "shared with the soak of the embedded log")]
mod process;
#[path = "../chaos/reference.rs"]
#[expect(dead_code, reason = "shared with the kill loop of the embedded log")]
mod reference;
#[path = "../chaos/scenario.rs"]
#[expect(dead_code, reason = "shared with the kill loop")]
mod scenario;
#[path = "../chaos/topic.rs"]
mod topic;
