//! Questions to a lane about committed state, and the answers.

use std::{sync::Arc, sync::mpsc::SyncSender};

use loopwarden_core::engine::{Session, SubjectKey, SwarmCounter, Verdict};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::policy::{Per, Reached};
use loopwarden_core::setting::Mode;
use loopwarden_core::whom::{Who, Whom};
use loopwarden_state::{Position, StoreError};

use crate::task::listing::{Listed, Listing, Places};

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

impl AgentView {
    /// The agent, as far as its session knows it.
    #[must_use]
    pub fn who(&self) -> Option<Who<'_>> {
        self.session.head.who(&self.subject)
    }
}

/// A budget as of the last commit.
#[derive(Debug, Clone)]
pub struct BudgetView {
    pub name: String,
    pub per: Per,
    pub mode: Mode,
    /// Those whose use it adds up.
    pub whom: Whom,
    /// Each limit, with what is used of it.
    pub parts: Vec<Reached>,
    /// What it has in force.
    pub verdicts: Vec<Verdict>,
}

/// A counter of a swarm as of the last commit: one call, made by its agents.
#[derive(Debug)]
pub struct CounterView {
    /// The task that holds it.
    pub task: TaskId,
    /// The call, in 32 hex digits.
    pub fingerprint: String,
    /// What is counted.
    pub counter: SwarmCounter,
    /// Calls and agents of its newest window.
    pub held: (u32, u32),
}

/// What is in force as of the last commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// JSON of state rows, as they are published.
    pub rows: Vec<Vec<u8>>,
    /// Whether there may be others than these.
    pub more: bool,
}

/// Agents that a stop would bind, as of the last commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matching {
    pub agents: u64,
    /// Whether there may be others: no more than so many sessions are looked at.
    pub more: bool,
}

/// A question to a lane. The answer is dropped where nobody waits for it any more.
#[derive(Debug)]
pub enum Ask {
    Tasks(SyncSender<Vec<TaskView>>),
    /// The agents of a session, as far as its tasks hold them; at most [`AGENTS_SHOWN`](loopwarden_core::limits::AGENTS_SHOWN).
    Session {
        tenant: Option<String>,
        session_id: String,
        /// Where the answer goes.
        reply: SyncSender<Result<Vec<AgentView>, StoreError>>,
    },
    /// The counters of a swarm, as far as its tasks hold them; at most [`COUNTERS_SHOWN`](loopwarden_core::limits::COUNTERS_SHOWN).
    Swarm {
        tenant: String,
        swarm_id: String,
        /// Where the answer goes.
        reply: SyncSender<Result<Vec<CounterView>, StoreError>>,
    },
    /// Whom operators stop, as far as its tasks hold them: their state rows; at most [`HTTP_ROWS_MAX`](loopwarden_core::limits::HTTP_ROWS_MAX).
    Stops(SyncSender<Result<Vec<Standing>, StoreError>>),
    /// Those that operators stop at a time, as far as its tasks hold them.
    Stopped {
        now: EventTime,
        reply: SyncSender<Result<Vec<Whom>, StoreError>>,
    },
    /// Budgets that agents count in, as far as its tasks hold them.
    Budgets {
        agents: Arc<Vec<AgentView>>,
        now: EventTime,
        /// Where the answer of this lane goes.
        reply: SyncSender<Result<Vec<BudgetView>, StoreError>>,
    },
    /// A slice of its sessions.
    Sessions {
        listing: Arc<Listing>,
        /// Where to go on; none: from the beginning.
        from: Option<Arc<Places>>,
        /// Where the answer of this lane goes.
        reply: SyncSender<Result<Vec<Listed>, StoreError>>,
    },
    /// How many agents of its tasks a stop would bind.
    Matching {
        whom: Whom,
        /// Where the answer of this lane goes.
        reply: SyncSender<Result<Vec<Matching>, StoreError>>,
    },
    /// What is in force for whom its tasks hold, in one piece; at most [`HTTP_ROWS_MAX`](loopwarden_core::limits::HTTP_ROWS_MAX) rows.
    Standing(SyncSender<Result<Vec<Standing>, StoreError>>),
}
