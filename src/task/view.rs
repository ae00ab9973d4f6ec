//! What a lane tells about its tasks and sessions: committed state only, read from the store. Surface asks, lanes answer.

use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;

use crate::engine::Session;
use crate::engine::SubjectKey;
use crate::event::TaskId;
use crate::limits::AGENTS_SHOWN;
use crate::log::Log;
use crate::store::KeyFamily;
use crate::store::Position;
use crate::store::StateStore;
use crate::store::StoreError;
use crate::store::session;
use crate::task::Slot;
use crate::task::lane::Lane;
use crate::task::session::Machine;

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
    /// Which.
    pub id: TaskId,
    /// What it is doing.
    pub state: TaskState,
    /// Where it stands; none while restoring.
    pub position: Option<Position>,
}

/// An agent's session as of the last commit.
#[derive(Debug)]
pub struct AgentView {
    /// The task that holds it.
    pub task: TaskId,
    /// Whose it is.
    pub subject: SubjectKey,
    /// Head and history.
    pub session: Session,
}

/// A question to a lane. The answer is dropped where nobody waits for it any more.
#[derive(Debug)]
pub enum Ask {
    /// Its tasks.
    Tasks(SyncSender<Vec<TaskView>>),
    /// The agents of a session, as far as its tasks hold them; at most [`AGENTS_SHOWN`].
    Session {
        /// Tenant.
        tenant: Option<String>,
        /// Session.
        session_id: String,
        /// Where the answer goes.
        reply: SyncSender<Result<Vec<AgentView>, StoreError>>,
    },
}

impl<L: Log, S: StateStore, M: Machine> Lane<L, S, M> {
    pub(super) fn answer(&self, ask: Ask) {
        match ask {
            Ask::Tasks(reply) => drop(reply.try_send(self.tasks())),
            Ask::Session { tenant, session_id, reply } => {
                drop(reply.try_send(self.agents(tenant.as_deref(), &session_id)));
            }
        }
    }

    /// Its tasks as of their last commit.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskView> {
        let view = |(id, slot): (&TaskId, &Slot)| {
            let (state, position) = match slot {
                Slot::Waiting | Slot::Restoring { .. } => (TaskState::Restoring, None),
                Slot::Running(task) => (TaskState::Running, Some(task.state.committed.clone())),
                Slot::Poisoned(task) => (TaskState::Poisoned(task.state.why.clone()), None),
            };
            TaskView { id: *id, state, position }
        };
        self.work.tasks.iter().map(view).collect()
    }

    fn agents(&self, tenant: Option<&str>, session_id: &str) -> Result<Vec<AgentView>, StoreError> {
        let prefix = session::agents_prefix(tenant, session_id);
        let history_steps = self.work.machine.policy().history_steps;
        let mut agents = Vec::new();
        for id in self.running() {
            let mut keys = Vec::new();
            self.work.store.scan(id, KeyFamily::Head, prefix.as_bytes(), prefix.as_bytes(), &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < AGENTS_SHOWN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            for key in keys {
                if let (Some(subject), Some(loaded)) =
                    (session::subject_of(&key), session::load(&self.work.store, id, &key, history_steps)?)
                {
                    agents.push(AgentView { task: id, subject, session: loaded.session });
                }
            }
        }
        agents.truncate(AGENTS_SHOWN);
        Ok(agents)
    }
}
