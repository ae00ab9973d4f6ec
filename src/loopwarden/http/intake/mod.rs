//! Events in, and out again as they came.

pub(crate) mod acts;
pub(crate) mod answers;
pub(crate) mod durable;
pub(crate) mod events;
pub(crate) mod export;
mod found;
pub(crate) mod hooks;
pub(crate) mod links;
pub(crate) mod otlp;
pub(crate) mod otlp_sessions;
mod standing;
pub(crate) mod stops;
