//! What a lane shows of itself: its tasks, their counts, and to a question its committed state.

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_state::swarm::CounterKind;

use crate::{
    stage::context::Work,
    task::census::Counts,
    task::state::Running,
    task::tasks::Slot,
    thread::lane::Lane,
    view::ask::{Ask, TaskState, TaskView, View},
};

impl Lane {
    /// Answers a question, with what the store lacks of sessions written before.
    pub(super) fn answer(&mut self, ask: Ask) {
        let written = self.work.cache.write_back(&mut *self.work.store);
        let (tasks, policy, mode) = (self.tasks(), self.work.engine.policy(), self.settings.mode);
        ask.answer(written.map(|()| View { store: &*self.work.store, tasks, policy, mode }));
    }

    /// Its tasks as of their last commit.
    pub fn tasks(&self) -> Vec<TaskView> {
        let view = |(id, slot): (TaskId, &Slot)| {
            let (state, position) = match slot {
                Slot::Waiting | Slot::Restoring { .. } => (TaskState::Restoring, None),
                Slot::Running(task) => (TaskState::Running, Some(task.state.committed.clone())),
                Slot::Poisoned(task) => (TaskState::Poisoned(task.state.why.clone()), None),
            };
            TaskView { id, state, position }
        };
        self.tasks.iter().map(view).collect()
    }

    /// Sessions of its tasks, and live blocks in force; one read of the store for a task that has not counted yet.
    pub fn census(&mut self) -> [u64; 2] {
        let Self { tasks, work: Work { store, .. }, .. } = self;
        let of = |(id, task): (TaskId, &mut Running)| task.census.counts(&**store, id).unwrap_or_default();
        let add = |[sessions, blocks]: Counts, [more, of_them]: Counts| [sessions + more, blocks + of_them];
        tasks.running_mut().filter(|(id, _)| id.stage == Stage::Session).map(of).fold(Counts::default(), add)
    }

    /// Counters of its swarm tasks; one read of the store for a task that has not counted yet.
    pub fn swarm_counters(&mut self) -> u64 {
        let Self { tasks, work: Work { store, .. }, .. } = self;
        let of = |(id, task): (TaskId, &mut Running)| {
            let mut count = |kind| task.seen.count(kind, &**store, id).unwrap_or_default();
            count(CounterKind::Swarm) + count(CounterKind::Fleet)
        };
        tasks.running_mut().filter(|(id, _)| id.stage == Stage::Swarm).map(of).sum()
    }
}
