//! The hermetic tests: no network, no real sleep, one binary.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a helper that panics fails its test")]

mod decode;
mod fuzz;
mod identity;
mod store;
