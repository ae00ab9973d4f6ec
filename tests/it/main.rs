//! The hermetic tests: no network, no real time.

mod log;
mod store;
