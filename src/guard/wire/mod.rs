//! What comes over the wire and goes back: questions, answers, verdicts, events.

pub(crate) mod answer;
pub(crate) mod capabilities;
pub(crate) mod check;
pub(crate) mod message;
pub(crate) mod rewrite;
pub(crate) mod verdict;
