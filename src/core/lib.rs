//! The pure machine: what an event is, what makes two calls equal, which loops there are, and what to do about one.
//!
//! Nothing here reads a clock, a file or a socket: time and order come from the records alone. Modules in reading order; each imports
//! only from those above it (`tests/it/tidy.rs` holds the order).

pub mod limits;

pub mod whom;

pub mod event;

pub mod identity;

pub mod native;

pub mod setting;

pub mod detect;

pub mod policy;

pub mod engine;

pub mod wire;
