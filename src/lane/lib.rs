//! Tasks and the lanes that run them: poll, apply, commit; restore, rebalance, poison.
//!
//! ```text
//!            assigned                     Restored                 revoked, lost, stop
//!  (lease) ───────────► Task<Restoring> ───────────► Task<Running> ───────────────────► Task<Draining> ──► released
//!                             ▲                          │    │
//!                             └── outcome unknown, fenced┘    └── too many dead letters ──► Task<Poisoned>
//! ```
//!
//! A lane owns one log and several tasks. What it decides since its last commit is the overlay; the log commits it, then the store
//! follows (`commit`). Nothing leaves the process before a commit, so dropping the overlay undoes everything: an abort, a panic, a
//! rebalance and an unknown outcome all end there. Whoever holds a task's [`Lease`] may touch its state: one in a process (rule R1).

mod cache;
mod census;
mod commit;
mod context;
mod counters;
mod effects;
mod encode;
mod health;
mod json;
mod lane;
mod lease;
mod overlay;
mod pacing;
mod poison;
mod processor;
mod query;
mod rebalance;
mod recent;
mod reset;
mod restore;
mod restored;
mod restorer;
mod retention;
mod seen;
mod session;
mod settings;
mod sorted;
mod stats;
mod sums;
mod supervise;
mod swarm;
mod timers;
mod view;
mod work;

use census::Census;
pub use encode::{Encoder, Row};
pub use lane::{Exit, Lane, Order, Turn};
pub use lease::{Lease, Leases};
use loopwarden_core::event::{EventTime, NextOffset, RecordOffset, TaskId};
use loopwarden_state::Position;
use poison::DeadLetterWindow;
pub use poison::{KillerFile, Suspect};
pub use processor::Machine;
pub use query::{AgentView, Ask, CounterView, TaskState, TaskView};
pub use recent::{Numbered, Recent};
pub use restore::Restore;
pub use restored::{Ready, RestoreError, RestoreStep, Waited};
pub use restorer::{Answer, InlineRestorer, RestorePool, Restorer};
pub use retention::sweep;
use seen::Seen;
pub use settings::{Breaker, Clock, CommitTrigger, DeadLetterContent, LaneSettings, OnInputLoss, ProcessMode};
pub use stats::{BUCKETS_US, COMMIT_STEPS, Histogram, Stats};
pub use supervise::{Fleet, LaneHandle, LaneReport, SystemClock, run_to_end};
use timers::TimerQueue;

/// A task in a state. Only [`Running`] processes records.
#[derive(Debug)]
pub struct Task<S> {
    id: TaskId,
    lease: Lease,
    state: S,
}

/// Its state is being brought to the end of its changelog.
#[derive(Debug)]
pub struct Restoring;

/// It processes records.
#[derive(Debug)]
pub struct Running {
    /// As of the last commit: what an abort goes back to.
    committed: Position,
    /// With the overlay.
    now: Position,
    timers: TimerQueue,
    /// Counters of a task of the swarm stage.
    seen: Seen,
    /// Sessions of a task of the session stage.
    census: Census,
    window: DeadLetterWindow,
    window_committed: DeadLetterWindow,
    /// The Position itself must be committed before anything else (first start, rule R5).
    is_unwritten: bool,
    /// A reset that reaches more agents than one commit takes: its record is read again, and only the agents tell how far it got.
    halfway: Option<RecordOffset>,
}

/// It is given back: nothing is fed to it any more.
#[derive(Debug)]
pub struct Draining;

/// It stopped by itself and waits for a person.
#[derive(Debug)]
pub struct Poisoned {
    why: String,
}

impl Task<Restoring> {
    /// A task whose state nobody else touches: the lease says so.
    #[must_use]
    pub const fn new(id: TaskId, lease: Lease) -> Self {
        Self { id, lease, state: Restoring }
    }

    /// The task's name.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Its state is complete: it may run from this Position on.
    fn run(self, position: Position, is_unwritten: bool) -> Task<Running> {
        let state = Running {
            committed: position.clone(),
            now: position,
            timers: TimerQueue::new(),
            seen: Seen::new(),
            census: Census::default(),
            window: DeadLetterWindow::default(),
            window_committed: DeadLetterWindow::default(),
            is_unwritten,
            halfway: None,
        };
        Task { id: self.id, lease: self.lease, state }
    }
}

impl Task<Running> {
    /// Its state in the store can no longer be trusted to be at the changelog's end.
    fn restore(self) -> Task<Restoring> {
        Task { id: self.id, lease: self.lease, state: Restoring }
    }

    fn poison(self, why: String) -> Task<Poisoned> {
        Task { id: self.id, lease: self.lease, state: Poisoned { why } }
    }

    fn drain(self) -> Task<Draining> {
        Task { id: self.id, lease: self.lease, state: Draining }
    }
}

impl Task<Poisoned> {
    fn drain(self) -> Task<Draining> {
        Task { id: self.id, lease: self.lease, state: Draining }
    }
}

impl Task<Draining> {
    /// Lets somebody else have it.
    fn release(self) {
        drop(self.lease);
    }
}

impl Running {
    /// Whether the next commit has anything to say about it.
    fn is_touched(&self) -> bool {
        self.is_unwritten
            || self.halfway.is_some()
            || self.now.next_offset != self.committed.next_offset
            || self.now.watermark != self.committed.watermark
            || self.now.outputs != self.committed.outputs
            || self.timers.is_changed()
            || self.seen.is_touched()
    }

    /// Back to the last commit.
    fn rewind(&mut self) {
        self.now = self.committed.clone();
        self.timers.rewind();
        self.seen.rewind();
        self.census.rewind();
        self.window = self.window_committed.clone();
        self.halfway = None;
    }

    fn next(&self) -> NextOffset {
        self.now.next_offset
    }

    fn advance_watermark(&mut self, time: EventTime, lateness_ms: i64) {
        self.now.watermark = self.now.watermark.max(time.minus_ms(lateness_ms));
    }

    /// Counts one more command or dead letter; its ordinal.
    fn count_output(&mut self, id: &[u8]) -> u64 {
        self.now.outputs += 1;
        self.now.outputs_chain = loopwarden_state::chain(self.now.outputs_chain, id);
        self.now.outputs
    }
}

/// A task as the lane holds it.
#[derive(Debug)]
enum Slot {
    /// Another lane of this process has not let go of it yet.
    Waiting,
    /// With the restorer; answers of an older attempt are void.
    Restoring { attempt: u64 },
    /// Processing, unless the lane waits.
    Running(Box<Task<Running>>),
    /// Stopped.
    Poisoned(Task<Poisoned>),
}
