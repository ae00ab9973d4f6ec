//! What an event changes in a session: calls and answers become steps, and what ends a loop is taken out.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod identify;
pub(crate) mod lifecycle;
pub(crate) mod record;
pub(crate) mod swarm_calls;
pub(crate) mod uses;
