//! The engine, watched: whoever asks what it makes of each input sees the session and the effects right after it.

use std::sync::Arc;

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::policy::Policy;
use loopwarden_lane::Machine;

use crate::report::stats::ReplayStats;

/// Sees what an engine does.
pub(crate) trait Observer: Send {
    /// An input was applied to the session of `subject`. `before` is the sequence that its next step had before it.
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, session: &Session, before: u64, effects: &Effects);
}

/// The engine with its observer.
pub(crate) struct Observed<O> {
    engine: SessionEngine,
    pub(crate) observer: O,
}

impl<O> Observed<O> {
    pub(crate) const fn new(engine: SessionEngine, observer: O) -> Self {
        Self { engine, observer }
    }
}

impl<O: Observer> Machine for Observed<O> {
    fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        let before = session.history.next_sequence();
        self.engine.apply(subject, session, input, out);
        self.observer.applied(input, subject, session, before, out);
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

impl Observer for ReplayStats {
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, session: &Session, before: u64, effects: &Effects) {
        if let Input::Event(event, place) = input {
            self.note_event(event, (subject, session, before), place, effects);
        }
    }
}
