//! What is remembered of each agent: nudges that were handed out, calls that were refused, calls that are open.

pub(crate) mod agent;
pub(crate) mod deliveries;
pub(crate) mod open_calls;
pub(crate) mod refused_calls;
