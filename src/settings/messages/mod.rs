//! Messages for people: a code, what happened, where, what to do, and a page per code.

pub(crate) mod diagnostic;
pub(crate) mod explain;
