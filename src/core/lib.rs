//! The pure machine: what an event is, what makes two calls equal, which loops there are, and what to do about one.
//!
//! Nothing here reads a clock, a file or a socket: time and order come from the records alone. Modules in reading order; each imports
//! only from those above it (`tests/it/tidy.rs` holds the order).

pub mod limits;

pub mod shares;

pub mod whom;

pub mod event;

pub mod identity;

/// Native events as sources build them. Names, bounds and the rule for long content are the same whoever reports a call, so that a call
/// that a hook, a log, telemetry and a proxy report has one identity.
pub mod native {
    mod content;
    mod event;

    pub use content::mark;
    pub use event::{EventAgent, EventError, NativeEvent, id_of, is_native};
}

pub mod setting;

pub mod detect;

pub mod policy;

pub mod engine;

pub mod wire;
