//! Everything that a record of one task meets, and how its processing ends.

use loopwarden_core::engine::{Effects, SwarmEngine};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_state::StoreError;

use crate::commit::overlay::Overlay;
use crate::encode::Encoder;
use crate::memory::cache::Cache;
use crate::memory::counters::Counters;
use crate::settings::LaneSettings;
use crate::stage::poison::{Culprit, Marks};
use crate::task::state::Running;

/// Counters of the swarm stage may take one part in so many of what sessions may.
pub(crate) const COUNTERS_SHARE: usize = 4;

/// How a record ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The task stands behind it.
    Done,
    /// The overlay is full between two of its timers: commit, then read it again.
    Full,
    /// A detector panicked: drop the overlay, mark this, run again.
    Panicked(Culprit),
    /// Too many dead letters: the task stops in front of it.
    Tripped(&'static str),
}

/// Why an input did not get through.
pub(crate) enum Stop {
    Handled(Handled),
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Everything a record of one task meets.
pub(crate) struct Stage<'a, S, M> {
    pub(crate) id: TaskId,
    pub(crate) task: &'a mut Running,
    pub(crate) store: &'a mut S,
    pub(crate) machine: &'a mut M,
    pub(crate) encoder: &'a Encoder,
    pub(crate) cache: &'a mut Cache,
    pub(crate) overlay: &'a mut Overlay,
    pub(crate) effects: &'a mut Effects,
    pub(crate) marks: &'a Marks,
    pub(crate) settings: &'a LaneSettings,
    pub(crate) swarm: &'a SwarmEngine,
    pub(crate) counters: &'a mut Counters,
}

/// What caused an input, for its outputs.
#[derive(Clone, Copy)]
pub(crate) struct Cause {
    pub(crate) offset: u64,
    /// Time of the row and of what has no time of its own.
    pub(crate) at: EventTime,
    pub(crate) record_time: EventTime,
}

/// Whether more is held than memory is given, of what cannot leave before it is written.
pub(crate) fn is_crowded(cache: &Cache, counters: &Counters, settings: &LaneSettings) -> bool {
    cache.bytes().max(counters.bytes().saturating_mul(COUNTERS_SHARE)) > settings.cache_bytes_max.saturating_mul(2)
}

impl<S, M> Stage<'_, S, M> {
    /// Whether a commit must come before more is decided: the overlay's bounds, or sessions and counters that cannot leave memory before
    /// they are written.
    pub(crate) fn is_full(&self) -> bool {
        self.overlay.is_full(self.settings) || is_crowded(self.cache, self.counters, self.settings)
    }
}
