//! The commit: when, what is in it, and an arm per outcome (page `commit`).

pub(crate) mod overlay;
pub(crate) mod pacing;
pub(crate) mod protocol;
pub(crate) mod recent;
