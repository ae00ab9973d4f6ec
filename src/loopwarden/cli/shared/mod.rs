//! What several commands do alike: settings, one request, lines of a file, a range of a topic.

pub(crate) mod act;
pub(crate) mod advice;
pub(crate) mod ask;
pub(crate) mod lines;
pub(crate) mod quiet;
pub(crate) mod range;
pub(crate) mod setup;
pub(crate) mod task_name;
