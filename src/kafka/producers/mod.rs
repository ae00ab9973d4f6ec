//! Who writes: a lane in transactions, others each record once and in order.

pub(crate) mod transactional;
pub mod writer;
