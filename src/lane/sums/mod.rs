//! What session tasks send to the swarm stage: sums, resets and the time they have reached.

pub(crate) mod aggregates;
pub(crate) mod reports;
pub(crate) mod sources;
