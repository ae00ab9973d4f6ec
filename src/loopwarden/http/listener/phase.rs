//! Whether a connection is being answered, or awaits a head.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a connection is answering: odd while it does; each request adds two.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU64);

impl Phase {
    /// Its number now.
    pub(crate) fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether a number is one of answering.
    pub(crate) const fn is_of_answer(number: u64) -> bool {
        number % 2 == 1
    }

    /// Whether a request is being answered.
    pub(crate) fn is_answering(&self) -> bool {
        Self::is_of_answer(self.number())
    }

    /// Whether there ever was a request.
    pub(crate) fn has_begun(&self) -> bool {
        self.number() > 0
    }

    /// A request has begun to be answered. Ends with the last clone of what is returned.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        self.0.fetch_or(1, Ordering::AcqRel);
        Answering(Arc::new(Ended(Arc::clone(self))))
    }
}

/// A request is being answered as long as one of these exists. A stream keeps one.
#[derive(Debug, Clone)]
pub(crate) struct Answering(#[expect(dead_code, reason = "lives to be dropped")] Arc<Ended>);

#[derive(Debug)]
struct Ended(Arc<Phase>);

impl Drop for Ended {
    fn drop(&mut self) {
        // One request at a time on a connection: odd becomes the next even number.
        let _ = self
            .0
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |number| Phase::is_of_answer(number).then_some(number + 1));
    }
}
