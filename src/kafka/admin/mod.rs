//! Topics, permissions and groups, seen and changed from outside.

pub mod growth;
pub mod operator;
pub mod permissions;
pub(crate) mod plan;
pub mod topics;
