//! The hermetic tests: no network, no real time.

mod store;
