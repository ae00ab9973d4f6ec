//! The hermetic tests: no network, no broker, no real sleep. One binary, so that it links once.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a helper that panics fails its test")]

mod config;
mod decode;
mod docs;
mod fuzz;
mod golden;
mod identity;
mod invariants;
mod log;
mod policy;
mod properties;
mod store;
mod tidy;
