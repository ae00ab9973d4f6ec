//! What a state row is made of.

use loopwarden_core::engine::{Head, InForceStop, StopState, SubjectKey, SwarmCounter, Verdict};
use loopwarden_core::{event::EventTime, wire};

/// The verdicts in force for a subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InForce<'a> {
    pub(super) verdicts: &'a [Verdict],
    pub(super) stop: Option<&'a InForceStop>,
    /// Epoch of the last live command.
    pub(super) epoch: i64,
    /// Number of the last live command in its epoch.
    pub(super) seq: u64,
}

impl<'a> InForce<'a> {
    /// For a session's agent.
    pub(crate) fn of_head(head: &'a Head) -> Self {
        Self { verdicts: &head.verdicts, stop: None, epoch: head.epoch, seq: head.live_seq }
    }

    /// For what a counter counts: of periods that overlap in time, the last one gives the numbers.
    pub(crate) fn of_counter(counter: &'a SwarmCounter) -> Self {
        let last = counter.periods.values().map(|period| (period.epoch, period.seq)).max();
        let (epoch, seq) = last.unwrap_or_default();
        Self { verdicts: &counter.verdicts, stop: None, epoch, seq }
    }

    /// For whom an operator stops.
    pub(crate) fn of_stop(state: &'a StopState) -> Self {
        Self { verdicts: &[], stop: state.in_force.as_ref(), epoch: state.epoch, seq: state.seq }
    }

    /// The JSON of the row, as of an input at `at`; none where no verdict holds.
    pub(crate) fn json(&self, of: &SubjectKey, at: EventTime) -> Option<Vec<u8>> {
        let row = match self.stop {
            Some(stop) => Some(wire::Row::of_stop(of, stop, self.epoch, self.seq, at)),
            None => wire::Row::of(of, self.verdicts, self.epoch, self.seq, at),
        };
        row.map(|row| wire::to_json(&row))
    }
}
