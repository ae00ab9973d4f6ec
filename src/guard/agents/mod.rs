//! What is remembered of each agent: what it was told, what it was refused, which calls are open.

pub(crate) mod deliveries;
pub(crate) mod pairs;
pub(crate) mod refusals;
pub(crate) mod who;
