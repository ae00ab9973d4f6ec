//! Which part of the work a record belongs to.

use std::fmt;

/// A stage of the topology. The numbers are stored in keys and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Reads events, one session at a time.
    Session = 1,
    /// Reads the sums that session tasks send, one fingerprint of a swarm at a time.
    Swarm = 2,
}

impl Stage {
    /// The name in task names, metrics and headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Swarm => "swarm",
        }
    }
}

/// A task: one stage on one input partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub stage: Stage,
    pub partition: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage.as_str(), self.partition)
    }
}
