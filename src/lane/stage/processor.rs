//! What applies inputs to sessions, behind a trait: tests of the lane use something simpler than the engine.

use std::sync::Arc;

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::policy::Policy;

/// What applies inputs to sessions. The engine; in tests of the runtime something simpler.
pub trait Machine: Send {
    /// Applies one input to the session of `subject`. Must depend on nothing else, and re-arm a timer only later than it was due.
    fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects);
    /// The policy in force.
    fn policy(&self) -> &Arc<Policy>;
    /// The application's name.
    fn app(&self) -> &str;
    /// Puts another policy in force.
    fn swap(&mut self, policy: Arc<Policy>);
}

impl Machine for SessionEngine {
    fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        Self::apply(self, subject, session, input, out);
    }

    fn policy(&self) -> &Arc<Policy> {
        Self::policy(self)
    }

    fn app(&self) -> &str {
        Self::app(self)
    }

    fn swap(&mut self, policy: Arc<Policy>) {
        *self = Self::new(self.app(), policy);
    }
}
