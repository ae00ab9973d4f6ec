//! A task in one of its states, and what a running one consists of.

use loopwarden_core::event::{EventTime, NextOffset, RecordOffset, Stage, TaskId};
use loopwarden_core::{engine::StopState, policy::Policy};
use loopwarden_state::{Change, Position, StoreError, TenantMinute, swarm::Floor};

use crate::memory::uncommitted::{Uncommitted, Versioned};
use crate::sums::sources::{Reading, Sources};
use crate::{
    memory::held::Held, memory::seen::Seen, task::census::Census, task::lease::Lease, task::poison::DeadLetterWindow,
    task::timers::TimerQueue,
};

/// In the place of a policy's hash: a comparison of budgets has not come to its end, so whoever goes on begins it anew.
const HALF_COMPARED: [u8; 32] = [0xff; 32];

/// A task in a state. Only [`Running`] processes records.
#[derive(Debug)]
pub struct Task<S> {
    pub(crate) id: TaskId,
    pub(crate) lease: Lease,
    pub(crate) state: S,
}

/// Its state is being brought to the end of its changelog.
#[derive(Debug)]
pub struct Restoring;

/// It processes records.
#[derive(Debug)]
pub struct Running {
    /// As of the last commit: what an abort goes back to.
    pub(crate) committed: Position,
    /// With the overlay.
    pub(crate) now: Position,
    pub(crate) timers: TimerQueue,
    /// Resets of swarms, by their keys, in a task of the swarm stage.
    pub(crate) floors: Held<Floor>,
    /// Counters of a task of the swarm stage.
    pub(crate) seen: Seen,
    /// Sessions of a task of the session stage.
    pub(crate) census: Census,
    /// What a minute has seen: events of tenants that have a limit, and dead letters of senders that hold their records.
    pub(crate) minutes: Held<TenantMinute>,
    /// Whom operators stop, by the keys of their state rows, in a task of the session stage.
    pub(crate) stops: Held<StopState>,
    pub(crate) window: Versioned<DeadLetterWindow>,
    /// What a task of the session stage says of its source watermark.
    pub(crate) reading: Reading,
    /// What a task of the swarm stage knows of all of them.
    pub(crate) sources: Versioned<Sources>,
    /// Another policy decides than before: the budgets of a task of the swarm stage are to be compared with it, from this key on.
    pub(crate) compares_budgets: Versioned<Option<Vec<u8>>>,
    /// The Position itself must be committed before anything else (first start, rule R5).
    pub(crate) is_unwritten: bool,
    /// A reset that reaches more agents than one commit takes: its record is read again, and only the agents tell how far it got.
    pub(crate) halfway: Option<RecordOffset>,
}

/// It is given back: nothing is fed to it any more.
#[derive(Debug)]
pub struct Draining;

/// It stopped by itself and waits for a person.
#[derive(Debug)]
pub struct Poisoned {
    pub(crate) why: String,
}

impl Task<Restoring> {
    /// A task whose state nobody else touches: the lease says so.
    pub const fn new(id: TaskId, lease: Lease) -> Self {
        Self { id, lease, state: Restoring }
    }

    /// The task's name.
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Its state is complete: it may run from this Position on.
    pub(crate) fn run(self, position: Position, is_unwritten: bool) -> Task<Running> {
        let state = Running {
            sources: Versioned::new(Sources::after(position.watermark)),
            committed: position.clone(),
            now: position,
            timers: TimerQueue::new(),
            floors: Held::new(),
            seen: Seen::new(),
            census: Census::new(),
            minutes: Held::new(),
            stops: Held::new(),
            window: Versioned::default(),
            reading: Reading::default(),
            compares_budgets: Versioned::default(),
            is_unwritten,
            halfway: None,
        };
        Task { id: self.id, lease: self.lease, state }
    }
}

impl Task<Running> {
    /// Its state in the store can no longer be trusted to be at the changelog's end.
    pub(crate) fn restore(self) -> Task<Restoring> {
        Task { id: self.id, lease: self.lease, state: Restoring }
    }

    pub(crate) fn poison(self, why: String) -> Task<Poisoned> {
        Task { id: self.id, lease: self.lease, state: Poisoned { why } }
    }

    pub(crate) fn drain(self) -> Task<Draining> {
        Task { id: self.id, lease: self.lease, state: Draining }
    }

    /// A policy decides from the next record on; where another one did before, the log says so with the place.
    pub(crate) fn adopt(&mut self, policy: &Policy) {
        let (hash, before) = (policy.hash.0, self.state.now.policy_sha256);
        let is_other = before != hash && before != [0; 32];
        let compares = is_other && self.id.stage == Stage::Swarm;
        // Also of what a rewind goes back to: the records are judged by the policy of the day they are read.
        for position in [&mut self.state.committed, &mut self.state.now] {
            if position.policy_sha256 != hash {
                position.policy_sha256 = if compares { HALF_COMPARED } else { hash };
                position.policy_since = position.next_offset.0;
            }
        }
        if is_other {
            self.state.compares_budgets = Versioned::new(compares.then(Vec::new));
            tracing::info!(task = %self.id, next = %self.state.next(), policy = %policy.hash, profile = policy.profile,
                "another policy is in force");
        }
    }
}

impl Task<Poisoned> {
    pub(crate) fn drain(self) -> Task<Draining> {
        Task { id: self.id, lease: self.lease, state: Draining }
    }
}

impl Task<Draining> {
    /// Lets somebody else have it.
    pub(crate) fn release(self) {
        drop(self.lease);
    }
}

impl Running {
    /// The budgets are those of a policy. A rewind takes that back with what was compared.
    pub(crate) fn end_comparison(&mut self, policy: &Policy) {
        *self.compares_budgets = None;
        self.now.policy_sha256 = policy.hash.0;
    }

    /// Whether the next commit has anything to say about it.
    pub(crate) fn is_touched(&self) -> bool {
        self.is_unwritten
            || self.halfway.is_some()
            || self.reading.to_send.is_some()
            || self.now.next_offset != self.committed.next_offset
            || self.now.watermark != self.committed.watermark
            || self.now.outputs != self.committed.outputs
            || self.timers.is_changed()
            || self.seen.is_touched()
    }

    /// All that changes between two commits, besides the Position; in the order in which a commit writes it.
    fn parts(&mut self) -> [&mut dyn Uncommitted; 10] {
        let Self { floors, timers, seen, census, minutes, stops, window, reading, sources, compares_budgets, .. } = self;
        [floors, timers, seen, census, minutes, stops, window, reading, sources, compares_budgets]
    }

    /// Gives away what the store lacks, but the Position.
    pub(crate) fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError> {
        self.parts().into_iter().try_for_each(|part| part.changes(task, out))
    }

    /// Back to the last commit.
    pub(crate) fn rewind(&mut self) {
        self.now.clone_from(&self.committed);
        self.halfway = None;
        self.parts().into_iter().for_each(Uncommitted::rewind);
    }

    /// What happened since the last commit is true.
    pub(crate) fn committed(&mut self) {
        self.committed.clone_from(&self.now);
        self.is_unwritten = false;
        self.parts().into_iter().for_each(Uncommitted::committed);
    }

    pub(crate) fn next(&self) -> NextOffset {
        self.now.next_offset
    }

    pub(crate) fn advance_watermark(&mut self, time: EventTime, lateness_ms: i64) {
        self.now.watermark = self.now.watermark.max(time.minus_ms(lateness_ms));
    }

    /// Counts one more command or dead letter; its ordinal.
    pub(crate) fn count_output(&mut self, id: &[u8]) -> u64 {
        self.now.outputs += 1;
        self.now.outputs_chain = loopwarden_state::chain(self.now.outputs_chain, id);
        self.now.outputs
    }
}
