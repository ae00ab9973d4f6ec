//! What a lane counts and times.

pub(crate) mod histogram;
pub(crate) mod stats;
