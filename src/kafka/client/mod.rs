//! Clients of librdkafka: their settings, what they call back, who they are, and what their errors mean.

pub(crate) mod answers;
pub(crate) mod bearer;
pub(crate) mod certificates;
pub(crate) mod closing;
pub(crate) mod context;
pub mod fate;
pub(crate) mod identity;
pub(crate) mod message;
pub(crate) mod native;
pub mod settings;
pub(crate) mod standstill;
