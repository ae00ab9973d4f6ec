//! From the findings of one moment to at most one command: fusion, and the episode it belongs to.

pub(crate) mod decide;
pub(crate) mod episode;
pub(crate) mod fusion;
