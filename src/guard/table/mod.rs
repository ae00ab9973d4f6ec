//! The verdicts in force, found by subject or by call: bounded, with a share for each tenant.

pub(crate) mod groups;
pub(crate) mod lost;
pub(crate) mod lru;
pub(crate) mod matching;
pub(crate) mod place;
pub(crate) mod rows;
pub(crate) mod shares;
pub(crate) mod stops;
