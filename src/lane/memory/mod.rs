//! What a task keeps in memory of its store: bounded in bytes, and pinned while it is not committed.

pub(crate) mod cache;
pub(crate) mod counters;
pub(crate) mod pinned;
pub(crate) mod seen;
pub(crate) mod sorted;
