//! Who reads and is no member of the lanes' group.

pub(crate) mod changelog;
pub(crate) mod commands;
pub(crate) mod follow;
pub(crate) mod judged;
pub mod range;
pub(crate) mod reader;
