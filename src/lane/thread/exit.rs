//! Why a lane ended.

use loopwarden_log::{E_DAMAGED, LogError};
use loopwarden_state::StoreError;

/// Why a lane ended. The process ends with it, except for the first two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Exit {
    /// Bounded input was read to its end, and all of it is committed.
    #[error("end of input")]
    Done,
    /// It was told to.
    #[error("stopped")]
    Stopped,
    /// Another process has this identity.
    #[error("E0501: fenced: {0}")]
    Fenced(String),
    /// The store failed; the changelog has what is missing.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Configuration, permission, a vanished topic, moved offsets.
    #[error("{code}: {message}")]
    Fatal {
        /// Documented code.
        code: &'static str,
        /// What happened, where, what to do.
        message: String,
    },
    /// It could not go on, and restarting may help.
    #[error("{0}")]
    Failed(String),
}

/// Where nothing can be tried again: trouble that may pass ends the lane too.
impl From<LogError> for Exit {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Transient(cause) | LogError::OutOfRange(cause) => Self::Failed(cause),
            LogError::Lost(cause) => Self::Fenced(cause),
            LogError::Damaged(message) => Self::Fatal { code: E_DAMAGED, message },
            LogError::Fatal { code, message } => Self::Fatal { code, message },
        }
    }
}
