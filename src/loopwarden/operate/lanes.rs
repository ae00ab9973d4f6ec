//! Questions to the lanes of a process. Answers are committed state; none waits for a broker.

use std::{sync::Arc, sync::mpsc::sync_channel, time::Duration};

use loopwarden_core::limits::LANES_MAX;
use loopwarden_lane::{Ask, View};
use loopwarden_log::clock::Deadline;
use loopwarden_state::StoreError;

/// Longest wait for the lanes' answers.
const ASK_WAIT: Duration = Duration::from_secs(2);
/// Answers to one question: of the lanes of events, and of the one of sums.
const ANSWERS_MAX: usize = LANES_MAX as usize + 1;

/// The lanes of a process, as whatever asks them sees them.
pub trait Lanes {
    /// Puts a question to each lane. How many were asked.
    ///
    /// # Errors
    /// A lane is too busy.
    fn ask(&self, question: &dyn Fn() -> Ask) -> Result<usize, Unanswered>;
}

/// A question without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// What each lane answers. Blocks for two seconds at most.
///
/// # Errors
/// A lane is too busy, or does not answer in time; its store failed.
pub(crate) fn answers<T: Send + 'static>(
    lanes: &(impl Lanes + ?Sized),
    question: impl Fn(&View<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
) -> Result<Vec<T>, Unanswered> {
    let (reply, answers) = sync_channel(ANSWERS_MAX);
    let question = Arc::new(question);
    let asked = lanes.ask(&|| {
        let question = Arc::clone(&question);
        Ask::new(move |view| question(view), reply.clone())
    })?;
    // A lane that ends drops its question: nothing is left to wait for.
    drop(reply);
    let deadline = Deadline::after(ASK_WAIT);
    let next = |_| {
        let answer = answers.recv_timeout(deadline.left());
        let answer = answer.map_err(|_| Unanswered("a lane did not answer in time".to_owned()))?;
        answer.map_err(|error| {
            tracing::error!(%error, "a lane cannot read its state");
            Unanswered(error.to_string())
        })
    };
    (0..asked).map(next).collect()
}
