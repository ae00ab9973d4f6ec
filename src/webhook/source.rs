//! Where commands come from.

use std::time::Duration;

use loopwarden_log::{LogError, Output};

/// Committed commands in order, and how far a webhook is. One that fails is opened anew, and goes on where it was last kept.
pub trait Source: Send {
    /// The next command, if there is one within this time. What was handed over before is done with.
    ///
    /// # Errors
    /// Commands cannot be read.
    fn next(&mut self, wait: Duration) -> Result<Option<Output>, LogError>;

    /// Waits while the command that was handed over last is held. Whether it still belongs to this source: elsewhere another process
    /// may have it by now.
    ///
    /// # Errors
    /// Commands cannot be read.
    fn hold(&mut self, wait: Duration) -> Result<bool, LogError>;

    /// The command that was handed over last is done with.
    fn done(&mut self);

    /// Keeps what is done with across a restart. Nothing is written where nothing is new.
    ///
    /// # Errors
    /// It cannot be kept.
    fn keep(&mut self) -> Result<(), LogError>;

    /// Commands that were deleted before they were read, as far as that is known.
    fn lost(&self) -> u64 {
        0
    }

    /// Commands behind the one that is held or comes next, where that is known.
    fn behind(&self) -> Option<u64> {
        None
    }
}
