//! The restore of a task's state from its changelog, and who steps it (page `commit`).

pub(crate) mod loader;
pub(crate) mod machine;
pub(crate) mod outcome;
pub(crate) mod workers;
