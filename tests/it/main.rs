//! The hermetic tests: no network, no broker, no real sleep. One binary, so that it links once.

#![allow(clippy::pedantic, reason = "the pedantic lints are for the product; tests are read once, top to bottom")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a helper that panics fails its test")]

mod binding;
#[path = "../common/bounded.rs"]
mod bounded;
mod budgets;
mod circles;
mod cli;
mod config;
mod cuts;
mod decode;
mod deploy;
mod detection_page;
mod docs;
#[path = "../common/environment.rs"]
mod environment;
mod expiry;
mod follow;
mod fuzz;
mod golden;
mod golden_ways;
mod guarantees;
mod hostile;
mod http;
mod identity;
mod inspect;
mod invariants;
mod lag;
mod lane;
mod log;
mod loss;
mod messages;
mod one_identity;
mod openapi;
mod poison;
mod policy;
mod properties;
mod prose;
mod protocol;
#[path = "../common/random.rs"]
mod random;
mod ratchets;
#[path = "../common/receiver.rs"]
mod receiver;
mod reset;
mod restore;
mod schema;
mod sim;
mod sim_long;
mod skew;
mod source;
mod store;
mod swarm;
mod swarm_blocks;
#[path = "../common/swarm_cases.rs"]
mod swarm_cases;
mod tenants;
mod tidy;
mod transcript;
mod trees;
mod trial;
mod trouble;
mod upgrade;
mod vectors;
#[path = "../common/views.rs"]
mod views;
#[path = "../common/watched.rs"]
mod watched;
mod world;
