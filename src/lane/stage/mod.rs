//! One record's way through a stage: from bytes to effects in the overlay.

pub(crate) mod budgets;
pub(crate) mod context;
pub(crate) mod effects;
pub(crate) mod feed;
pub(crate) mod foreign;
pub(crate) mod poison;
pub(crate) mod reset;
pub(crate) mod session;
pub(crate) mod stop;
pub(crate) mod swarm;
