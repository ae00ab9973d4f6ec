//! Hermetic tests: no network, no real sleep. One binary, so that it links once.

mod docs;
mod tidy;
