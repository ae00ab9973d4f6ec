//! The engine of a replay: the effects of each event are entered into the statistics of its lane.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey};
use loopwarden_core::policy::Policy;
use loopwarden_lane::Machine;

use crate::report::stats::{ReplayStats, Retain};

/// The statistics of a lane, which its log and its engine share. One thread turns both.
#[derive(Debug, Clone)]
pub(super) struct LaneStats {
    /// Number of the lane: statistics are added in its order.
    lane: usize,
    stats: Arc<Mutex<ReplayStats>>,
}

impl LaneStats {
    pub(super) fn new(lane: usize, retain: &Arc<Retain>) -> Self {
        Self { lane, stats: Arc::new(Mutex::new(ReplayStats::new(retain))) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ReplayStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The statistics, with the number of the lane.
    pub(super) fn take(&self) -> (usize, ReplayStats) {
        (self.lane, std::mem::take(&mut *self.lock()))
    }
}

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
