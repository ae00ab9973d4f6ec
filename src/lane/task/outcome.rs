//! What a restore comes to, for whoever steps it and for the lane that waits for it; and of whom a lane asks it.

use loopwarden_core::event::TaskId;
use loopwarden_log::{E_DAMAGED, LogError};
use loopwarden_state::{Position, StoreError};

use crate::settings::Clock;
use crate::task::state::{Restoring, Task};

/// A task that may run.
#[derive(Debug)]
pub struct Ready {
    /// The task, with its lease.
    pub task: Task<Restoring>,
    /// Where it stands.
    pub position: Position,
    /// The log does not know this Position yet: it is to be committed before anything else.
    pub is_first: bool,
    /// Input that was gone before it was read: from, to.
    pub lost: Option<(u64, u64)>,
    /// Changelog bytes read.
    pub bytes: u64,
    pub records: u64,
    /// How long it took, from its first step. Microseconds.
    pub took_us: u64,
    /// What it waited for. Milliseconds.
    pub waited: Waited,
}

/// What a restore waited for: a start that takes long has its reason in one of these. Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// The brokers, for where the changelog begins and ends.
    pub range_ms: u64,
    /// The group's offset, which is withheld while a transaction on it is open.
    pub group_ms: u64,
    /// Records, and the store that takes them.
    pub read_ms: u64,
}

/// Why a task cannot run. Both stop the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log and the state contradict each other, or the log cannot be read.
    #[error("{code}: {message}")]
    Stop {
        /// Documented code.
        code: &'static str,
        /// What happened, where, what to do.
        message: String,
    },
}

/// Where nothing can be tried again.
impl From<LogError> for RestoreError {
    fn from(error: LogError) -> Self {
        let (code, message) = match error {
            LogError::Transient(message) | LogError::OutOfRange(message) => ("E0101", message),
            LogError::Damaged(message) => (E_DAMAGED, message),
            LogError::Lost(message) => ("E0501", message),
            LogError::Fatal { code, message } => (code, message),
        };
        Self::Stop { code, message }
    }
}

/// What a step came to.
#[derive(Debug)]
pub enum RestoreStep {
    /// Step again, after so many milliseconds.
    Again(u64),
    /// Done.
    Ready(Box<Ready>),
    /// It will not be.
    Failed(RestoreError),
}

/// A restore that ended.
#[derive(Debug)]
pub struct Answer {
    pub id: TaskId,
    /// Number the lane gave it; an older one is void.
    pub attempt: u64,
    pub result: Result<Box<Ready>, RestoreError>,
}

/// Takes restores and answers them later.
pub trait Restorer: Send {
    /// Queues a restore.
    fn submit(&mut self, task: Task<Restoring>, attempt: u64);
    /// Forgets the restore of a task; its lease is given back as soon as nothing works on it.
    fn cancel(&mut self, id: TaskId);
    /// The next one that ended. Never waits.
    fn poll(&mut self, clock: &dyn Clock) -> Option<Answer>;
    /// Whether this restorer needs to be polled to get on.
    fn needs_turns(&self) -> bool;
    /// Changelog offsets still to be read, by stage: session, swarm.
    fn left(&self) -> [u64; 2];
}
