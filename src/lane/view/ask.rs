//! A question to a lane, and what the lane shows to it: its tasks, and their state as of the last commit.

use std::{fmt, ops::ControlFlow, sync::mpsc::SyncSender};

use loopwarden_core::event::{Stage, TaskId};
use loopwarden_core::policy::Policy;
use loopwarden_state::{KeyFamily, Position, StateStore, StoreError, try_scan};

use crate::settings::ProcessMode;

/// What a task is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// Waits for its former owner, or reads its changelog.
    Restoring,
    /// Processes records.
    Running,
    /// Stopped, and why.
    Poisoned(String),
}

/// A task as of its last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    pub id: TaskId,
    pub state: TaskState,
    /// Where it stands; none while restoring.
    pub position: Option<Position>,
}

/// What a question may look at. The lane judges nothing meanwhile, so it looks at a bounded part of it.
pub struct View<'a> {
    /// The state of the tasks that run.
    pub store: &'a dyn StateStore,
    pub tasks: Vec<TaskView>,
    /// In force since the last commit boundary.
    pub policy: &'a Policy,
    pub mode: ProcessMode,
}

impl View<'_> {
    /// Tasks of a stage whose state can be read.
    pub(super) fn running(&self, stage: Stage) -> impl Iterator<Item = TaskId> {
        let of_stage = self.tasks.iter().filter(move |task| task.id.stage == stage);
        of_stage.filter(|task| task.state == TaskState::Running).map(|task| task.id)
    }

    /// Whether a record of events was judged; none where its task does not run here.
    #[must_use]
    pub fn has_judged(&self, partition: u32, offset: u64) -> Option<bool> {
        let id = self.running(Stage::Session).find(|id| id.partition == partition)?;
        let position = self.tasks.iter().find(|task| task.id == id)?.position.as_ref()?;
        Some(position.next_offset.0 > offset)
    }

    /// Visits the entries of a family whose keys begin with `prefix`, in order of their keys, from `from` on, until one ends it or fails.
    pub(super) fn scan(
        &self,
        (task, family): (TaskId, KeyFamily),
        prefix: &[u8],
        from: &[u8],
        visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        try_scan(self.store, task, family, prefix, from, visit)
    }

    /// The first keys of a family that begin with `prefix`.
    pub(super) fn keys(&self, of: (TaskId, KeyFamily), prefix: &[u8], keys_max: usize) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut keys = Vec::new();
        self.scan(of, prefix, prefix, |key, _| {
            keys.push(key.to_vec());
            Ok(if keys.len() < keys_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(keys)
    }
}

/// Looks at a view, and sends what it finds.
type Question = dyn FnOnce(Result<View<'_>, StoreError>) + Send;

/// A question to a lane, whose thread answers it between two turns.
pub struct Ask(Box<Question>);

impl Ask {
    /// Sends what `question` finds to `reply`, once the lane comes to it; nowhere if it is not waited for any more.
    pub fn new<T: Send + 'static>(
        question: impl FnOnce(&View<'_>) -> Result<T, StoreError> + Send + 'static,
        reply: SyncSender<Result<T, StoreError>>,
    ) -> Self {
        Self(Box::new(move |view| drop(reply.try_send(view.and_then(|view| question(&view))))))
    }

    /// Answers it from a view, or with why there is none.
    pub fn answer(self, view: Result<View<'_>, StoreError>) {
        (self.0)(view);
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Ask")
    }
}
