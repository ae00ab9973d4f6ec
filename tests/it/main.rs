//! The hermetic tests, one binary: no network, no real sleep.

mod policy;
