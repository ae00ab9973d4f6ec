//! The engine of a replay: the effects of each event are entered into the statistics of its lane.

use std::sync::Arc;

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::policy::Policy;
use loopwarden_lane::Machine;

use crate::file::LaneStats;

/// The engine with the statistics.
pub(super) struct RecordingProcessor {
    engine: SessionEngine,
    stats: LaneStats,
}

impl RecordingProcessor {
    pub(super) const fn new(engine: SessionEngine, stats: LaneStats) -> Self {
        Self { engine, stats }
    }
}

impl Machine for RecordingProcessor {
    fn apply(&mut self, subject: &SubjectKey, session: &mut Session, input: Input<'_>, out: &mut Effects) {
        let before = session.history.next_sequence();
        self.engine.apply(subject, session, input, out);
        if let Input::Event(event, place) = input {
            self.stats.lock().note_event(event, (subject, session, before), place, out);
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
