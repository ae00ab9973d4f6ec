//! The engine of a replay, with somebody who watches: what came of each event is entered into the book of its lane.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::policy::Policy;
use loopwarden_lab::report::{Keep, Ledger};
use loopwarden_lane::Machine;

/// The book of a lane: its log and its engine enter what they see. One thread turns both.
#[derive(Debug, Clone)]
pub(super) struct Book {
    /// Number of the lane: books are added up in its order.
    lane: usize,
    ledger: Arc<Mutex<Ledger>>,
}

impl Book {
    pub(super) fn new(lane: usize, keep: &Arc<Keep>) -> Self {
        Self { lane, ledger: Arc::new(Mutex::new(Ledger::new(keep))) }
    }

    pub(super) fn open(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was entered, with the number of the lane.
    pub(super) fn close(&self) -> (usize, Ledger) {
        (self.lane, std::mem::take(&mut *self.open()))
    }
}

/// The engine, watched.
pub(super) struct Witness {
    engine: SessionEngine,
    book: Book,
}

impl Witness {
    pub(super) const fn new(engine: SessionEngine, book: Book) -> Self {
        Self { engine, book }
    }
}

impl Machine for Witness {
    fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        let before = session.history.next_sequence();
        self.engine.apply(subject, session, input, out);
        if let Input::Event(event, place) = input {
            self.book.open().note_event(event, (subject, session, before), place, out);
        }
    }

    fn policy(&self) -> &Arc<Policy> {
        self.engine.policy()
    }

    fn app(&self) -> &str {
        self.engine.app()
    }

    fn swap(&mut self, policy: Arc<Policy>) {
        self.engine.swap(policy);
    }
}
