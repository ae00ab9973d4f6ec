//! The log of one machine: events, outputs, swarm counts and state in one RocksDB, so that a `WriteBatch` is the transaction.
//!
//! No changelog, no restore, no unknown outcome: what a lane stages for the changelog *is* the state (page `commit`).
//!
//! ```text
//!   append ──► Events ──► poll ─ lane ─ commit ──► Outputs, State, offsets     one write-ahead log, one order
//!                                                     │
//!   sync thread: every 5 ms or 1 MiB ─────────────────┴──► readers see what is synced, appenders are answered
//! ```
//!
//! - M1: an append is answered after the sync that covers it.
//! - M2: appends and commits take one lock from numbering to writing: numbers have no gaps, and a crash cuts the same everywhere.
//! - M3: a reader sees an output only after it was synced; what was seen is never taken back or numbered anew.
//! - M5: partition *p* belongs to lane *p* mod lanes.

mod append;
mod broker;
mod lane;
mod layout;
mod reader;
mod record;
mod retention;
mod scan;
mod series;
mod shared;
mod sync;

pub use append::Append;
pub use broker::{Awaiting, EmbeddedBroker};
pub use lane::EmbeddedLog;
pub use reader::{EmbeddedEvent, EmbeddedOutput, EmbeddedReader, StateRow};
pub use retention::Retention;
pub use shared::Feed;
pub use shared::{Committed, EmbeddedOptions, Written};

/// Header of a tick record: a record without key and value that only says how late it is (rule I3).
pub const TICK_HEADER: &str = "lw_tick";
