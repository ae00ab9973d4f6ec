//! A setting, described once: what follows from its row for people, for schemas and for checks.

pub(crate) mod entry;
#[cfg(test)]
pub(crate) mod once;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod tables;
