//! What the records of a lane meet, and how the processing of one ends. Apart from the log, so that the log can hand records over while it is
//! borrowed.

use std::{cell::RefCell, io, rc::Rc, sync::Arc};

use loopwarden_core::engine::{Effects, Input, Session, SessionEngine, SubjectKey, SwarmEngine};
use loopwarden_core::event::{EventTime, TaskId};
use loopwarden_core::policy::Policy;
use loopwarden_state::{StateStore, StoreError};

use crate::settings::{CommitTrigger, LaneSettings};
use crate::task::poison::{Culprit, KillerFile, Marks};
use crate::{
    commit::overlay::Overlay, encode::Encoder, foreign::processor::Foreign, memory::cache::Cache, memory::counters::Counters,
    task::state::Running,
};

/// Bytes of events that lie between two cuts of an input at most: a log that can rewind keeps them until then.
const CUT_BYTES_MAX: u64 = 4 << 20;
/// Counters of the swarm stage may take one part in so many of what sessions may.
const COUNTERS_SHARE: usize = 4;

/// Sees what the engine makes of each input: replays, cases, explanations. A lane that serves has none.
pub trait Observer {
    /// An input was applied to the session of `subject`. `before` is the sequence that its next step had before it.
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, session: &Session, before: u64, effects: &Effects);
}

/// Whoever made the lane looks at it between two turns.
impl<O: Observer> Observer for Rc<RefCell<O>> {
    fn applied(&mut self, input: Input<'_>, subject: &SubjectKey, session: &Session, before: u64, effects: &Effects) {
        self.borrow_mut().applied(input, subject, session, before, effects);
    }
}

/// What the records of all tasks of a lane share.
pub(crate) struct Work {
    pub(crate) settings: Arc<LaneSettings>,
    pub(crate) store: Box<dyn StateStore>,
    pub(crate) engine: SessionEngine,
    pub(crate) observer: Option<Box<dyn Observer>>,
    pub(crate) encoder: Encoder,
    pub(crate) cache: Cache,
    pub(crate) swarm: SwarmEngine,
    pub(crate) counters: Counters,
    pub(crate) overlay: Overlay,
    pub(crate) effects: Effects,
    pub(crate) marks: Marks,
    /// What makes events of the records, where the input is a foreign topic.
    pub(crate) foreign: Option<Foreign>,
    pub(crate) killer: Option<KillerFile>,
    pub(crate) interrupt: Option<Interrupt>,
    /// Records below the next offset of their task.
    pub(crate) skipped: u64,
    /// Records of tasks that do not run.
    pub(crate) strayed: u64,
}

/// Everything that a record of one task meets.
pub(crate) struct RecordContext<'a> {
    pub(crate) id: TaskId,
    pub(crate) task: &'a mut Running,
    pub(crate) work: &'a mut Work,
}

/// Why an input did not get through.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The overlay is full between two of its timers: commit, then read it again.
    Full,
    /// A detector panicked: drop the overlay, mark this, run again.
    Panicked(Culprit),
    /// Too many dead letters: the task stops, and why.
    Tripped(String),
    Store(StoreError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Why records stopped in the middle of a poll.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// The overlay is full between two timers of this task: its record must be read again.
    Full(TaskId),
    Panicked(TaskId, Culprit),
    Tripped(TaskId, String),
    /// A read failed, or the note about what is being applied cannot be written.
    Store(StoreError),
}

impl Interrupt {
    /// The note about what is being applied cannot be written.
    pub(crate) fn unnoted(error: &io::Error) -> Self {
        Self::Store(StoreError::of_io("cannot note what is being applied", error))
    }
}

/// What caused an input, for its outputs.
#[derive(Clone, Copy)]
pub(crate) struct Cause {
    pub(crate) offset: u64,
    /// Time of the row and of what has no time of its own.
    pub(crate) at: EventTime,
    pub(crate) record_time: EventTime,
}

fn swarm_engine(engine: &SessionEngine, settings: &LaneSettings) -> SwarmEngine {
    SwarmEngine::new(engine.app(), Arc::clone(engine.policy())).aligned(settings.sources().is_some())
}

impl Work {
    pub(crate) fn new(store: Box<dyn StateStore>, engine: SessionEngine, settings: Arc<LaneSettings>) -> Self {
        Self {
            encoder: Encoder::new(engine.app(), engine.policy(), settings.mode, settings.dead_letters),
            swarm: swarm_engine(&engine, &settings),
            counters: Counters::new(settings.cache_bytes_max / COUNTERS_SHARE),
            cache: Cache::new(settings.cache_bytes_max),
            settings,
            store,
            engine,
            observer: None,
            overlay: Overlay::default(),
            effects: Effects::default(),
            marks: Marks::default(),
            foreign: None,
            killer: None,
            interrupt: None,
            skipped: 0,
            strayed: 0,
        }
    }

    /// Puts another policy in force. Nothing may be uncommitted.
    pub(crate) fn swap_policy(&mut self, policy: Arc<Policy>) -> Result<(), StoreError> {
        if policy.history_steps != self.engine.policy().history_steps {
            // A session in memory would keep its ring, one that is read from the store gets the new size: what is in the cache would show.
            self.cache.write_back(&mut *self.store)?;
            self.cache.clear();
        }
        self.engine = SessionEngine::new(self.engine.app(), policy);
        self.swarm = swarm_engine(&self.engine, &self.settings);
        self.encoder = Encoder::new(self.engine.app(), self.engine.policy(), self.settings.mode, self.settings.dead_letters);
        Ok(())
    }

    /// Whether a commit must come before more is decided: the overlay's bounds, or sessions and counters that cannot leave memory before
    /// they are written.
    pub(crate) fn is_full(&self) -> bool {
        let held = self.cache.bytes().max(self.counters.bytes().saturating_mul(COUNTERS_SHARE));
        self.overlay.is_full(&self.settings) || held > self.settings.cache_bytes_max.saturating_mul(2)
    }

    /// Whether a commit must come before the next record: there is no more room, or the input is cut here (replay). A replay reads an hour
    /// between two cuts: a tree is judged at the start that crosses a limit, as where commits come by the clock.
    pub(crate) fn must_commit(&self) -> bool {
        let is_cut = match self.settings.trigger {
            CommitTrigger::EveryRecords(records) => {
                let overlay = &self.overlay;
                overlay.events >= records || overlay.stats.event_bytes >= CUT_BYTES_MAX || overlay.grows_tree
            }
            CommitTrigger::Timed { .. } => false,
        };
        is_cut || self.is_full()
    }

    /// Drops what is held of a task.
    pub(crate) fn forget(&mut self, id: TaskId) {
        self.cache.remove_task(id);
        self.counters.remove_task(id);
    }
}
