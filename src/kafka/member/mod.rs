//! A lane as a member of the consumer group.

pub(crate) mod consumer;
pub(crate) mod place;
pub(crate) mod rebalance;
