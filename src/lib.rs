//! loopwarden finds AI agents that go round in circles and says so exactly once.
//!
//! Modules in reading order; each imports only from those above it (`tests/it/tidy.rs` holds the table).

pub mod docs;

pub mod limits;

pub mod clock;

pub mod event;

pub mod identity;

pub mod transcript;

pub mod policy;

pub mod detect;

pub mod engine;

pub mod store;

pub mod log;

pub mod task;

pub mod telemetry;

pub mod report;

pub mod http;

pub mod config;

pub mod cli;
