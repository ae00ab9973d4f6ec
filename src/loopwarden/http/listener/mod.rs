//! The listener: binds, bounds connections and bodies, and knows who is at the other end.

pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod diag;
pub(crate) mod endpoint;
pub(crate) mod metrics;
pub(crate) mod peer;
pub(crate) mod phase;
pub(crate) mod seats;
pub(crate) mod server;
