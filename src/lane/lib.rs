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

mod health;
mod settings;

// The rooms in their order: each imports from those above it only.

/// What is counted and measured.
mod metrics {
    pub(crate) mod histogram;
    pub(crate) mod intake;
    pub(crate) mod stats;
}

/// What a task keeps in memory of its store: bounded in bytes, and pinned while it is not committed.
mod memory {
    pub(crate) mod cache;
    pub(crate) mod counters;
    pub(crate) mod held;
    pub(crate) mod pinned;
    pub(crate) mod seen;
    pub(crate) mod sorted;
    pub(crate) mod uncommitted;
}

mod encode;

/// What session tasks send to the swarm stage: sums, resets and the time they have reached.
mod sums {
    pub(crate) mod aggregates;
    pub(crate) mod sources;
}

/// A task: its states, who owns it, its timers, and what is wrong with its records.
mod task {
    pub(crate) mod census;
    pub(crate) mod lease;
    pub(crate) mod outcome;
    pub(crate) mod poison;
    pub(crate) mod retention;
    pub(crate) mod state;
    pub(crate) mod tasks;
    pub(crate) mod timers;
}

/// The restore of a task's state from its changelog, and who steps it (page `commit`).
mod restore {
    mod loader;
    pub(crate) mod machine;
    pub(crate) mod workers;
}

/// What a commit writes, when it is due, and the last commands that one wrote (page `commit`).
mod commit {
    pub(crate) mod overlay;
    pub(crate) mod pacing;
    pub(crate) mod recent;
}

/// A foreign topic, whose records are no events, or have another key than their session: a lane makes events of them and writes these to
/// the input topic. There is no state: what becomes of a record follows from the record alone. What other lanes restore from a changelog,
/// this one asks of the group, whose offsets moved with the events in one transaction (rule C6).
mod foreign {
    pub(crate) mod form;
    pub(crate) mod group;
    pub(crate) mod processor;
}

/// One record's way through a stage: from bytes to effects in the overlay.
mod stage {
    mod budgets;
    pub(crate) mod context;
    mod effects;
    mod feed;
    mod reset;
    mod session;
    mod stop;
    mod swarm;
}

/// What questions find of the tasks of a lane: committed state only.
mod view {
    pub(crate) mod ask;
    pub(crate) mod found;
    pub(crate) mod listing;
}

/// A lane as a thread: it polls, commits, takes and gives back tasks, and says how it is.
mod thread {
    mod commit;
    pub(crate) mod exit;
    mod hold;
    pub(crate) mod lane;
    mod made;
    pub(crate) mod pace;
    mod rebalance;
    mod shown;
    pub(crate) mod supervise;
    mod watermarks;
}

pub use commit::recent::{Numbered, Recent};
pub use encode::Encoder;
pub use foreign::{form::Form, group::GroupRestorer, processor::Foreign, processor::ForeignSettings};
pub use metrics::histogram::{BUCKETS_US, Histogram};
pub use metrics::intake::{IntakeReport, IntakeStats};
pub use metrics::stats::{COMMIT_STEPS, LaneMetric, Samples, Stats, Value};
pub use restore::{machine::Restore, workers::InlineRestorer, workers::RestorePool};
pub use settings::{Clock, CommitTrigger, DeadLetterContent, LaneSettings, OnTrouble, ProcessMode};
pub use stage::context::Observer;
pub use task::outcome::{Answer, Ready, RestoreError, RestoreStep, Restorer, Waited};
pub use task::state::{Draining, Poisoned, Restoring, Running, Task};
pub use task::{lease::Lease, lease::Leases, poison::KillerFile, poison::Suspect, retention::sweep};
pub use thread::lane::{Lane, Order, Turn};
pub use thread::supervise::{Fleet, LaneHandle, LaneReport, SystemClock};
pub use thread::{exit::Exit, pace::Pace};
pub use view::ask::{Ask, TaskState, TaskView, View};
pub use view::found::{AgentView, BudgetView, CounterView, FirstRows, StopView};
pub use view::listing::{Listed, Listing, Places, SessionOrder, SessionRow, SessionState};
