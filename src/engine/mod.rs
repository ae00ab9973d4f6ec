//! The machines: a session, a swarm. `apply(state, input) -> effects`; it cannot fail, and it reads no clock.

mod command;
mod effects;
mod episode;
mod input;
mod marks;
mod session;
mod subject;
mod timer;

pub use command::*;
pub use effects::*;
pub use episode::Episode;
pub use input::Input;
pub use input::Place;
pub use marks::Mark;
pub use session::Awaited;
pub use session::Head;
pub use session::Session;
pub use subject::SEPARATOR;
pub use subject::SubjectKey;
pub use timer::TimerChange;
pub use timer::TimerKind;

use std::sync::Arc;

use crate::event::Event;
use crate::policy::Policy;

/// Applies inputs to sessions under one policy. One per lane; it has no state of its own but scratch memory.
#[derive(Debug, Clone)]
pub struct SessionEngine {
    app: Arc<str>,
    policy: Arc<Policy>,
}

impl SessionEngine {
    /// An engine for an application (its name is part of every command id) and a policy.
    #[must_use]
    pub fn new(app: &str, policy: Arc<Policy>) -> Self {
        Self { app: app.into(), policy }
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// The application's name.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// Whether the event must also reach the other agents of its session, as [`Input::Reset`].
    #[must_use]
    pub fn reaches_all_agents(event: &Event<'_>) -> bool {
        matches!(event.kind, crate::event::EventKind::Reset(crate::event::ResetScope::Session))
    }

    /// Applies one input to the session of `subject`.
    pub fn apply(&mut self, _subject: &SubjectKey, _session: &mut Session, _input: Input<'_>, _out: &mut Effects) {}
}
