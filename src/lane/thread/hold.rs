//! A lane stops reading partitions that are too far ahead of the slowest, and goes on when that one has come nearer (`pace`).

use std::collections::BTreeSet;

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::limits::{SWARM_LAG_AHEAD_MS, SWARM_LAG_WAIT_MS};

use crate::thread::lane::{Lane, Phase};
use crate::{settings::Clock, thread::exit::Exit};

impl Lane {
    /// Says how far others may read, as of the last commit.
    pub(crate) fn set_pace(&self) {
        let Some(sources) = self.settings.sources() else { return };
        let half = self.settings.lag_calls_max / 2;
        let swarm = self.tasks.running().filter(|(id, _)| id.stage == Stage::Swarm);
        let keeping = swarm.filter(|(_, task)| task.sources.as_committed().held() > half);
        let slowest = keeping.filter_map(|(_, task)| task.sources.as_committed().slowest(sources)).min();
        self.keeping.pace.set(self.keeping.lane, slowest.map(|slowest| slowest.saturating_add(SWARM_LAG_AHEAD_MS)));
    }

    /// Stops reading what is too far ahead, and goes on where it is no longer. Nobody waits for ever: a partition that does not move
    /// at all holds up the others for a while only.
    pub(crate) fn keep_pace(&mut self, clock: &dyn Clock) -> Result<(), Exit> {
        if self.phase != Phase::Feeding || self.settings.sources().is_none() {
            return Ok(());
        }
        let keeping = &mut self.keeping;
        let (limit, now_ms) = (keeping.pace.limit(), clock.mono_ms());
        if limit != keeping.limit {
            (keeping.limit, keeping.since_ms) = (limit, now_ms);
        }
        let limit = limit.filter(|_| now_ms.saturating_sub(keeping.since_ms) < SWARM_LAG_WAIT_MS);
        if limit.is_none() && keeping.held.is_empty() {
            return Ok(());
        }
        let events = self.tasks.running().filter(|(id, _)| id.stage == Stage::Session);
        let ahead: BTreeSet<TaskId> =
            events.filter(|(_, task)| limit.is_some_and(|limit| task.reading.recorded.0 > limit)).map(|(id, _)| id).collect();
        let stop: Vec<TaskId> = ahead.difference(&self.keeping.held).copied().collect();
        let go_on: Vec<TaskId> = self.keeping.held.difference(&ahead).copied().collect();
        for id in stop {
            tracing::info!(task = %id, "is ahead of a partition that lags, and waits for it");
            self.keeping.held.insert(id);
            self.log.pause(id).or_else(|error| self.on_log_error(error, clock))?;
        }
        for id in go_on {
            self.keeping.held.remove(&id);
            self.start(id, clock)?;
        }
        Ok(())
    }
}
