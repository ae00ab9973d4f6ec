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
mod histogram;
mod hold;
mod json;
mod lane;
mod lease;
mod loader;
mod overlay;
mod pace;
mod pacing;
mod pinned;
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
mod share;
mod sorted;
mod source_reports;
mod sources;
mod stats;
mod sums;
mod supervise;
mod swarm;
mod task;
mod tasks;
mod timers;
mod view;
mod work;

pub use encode::{Encoder, Row, dead_letter, dead_letter_why};
pub use health::RetryState;
pub use histogram::{BUCKETS_US, Histogram};
pub use lane::{Exit, Lane, Order, Turn};
pub use lease::{Lease, Leases};
pub use pace::Pace;
pub use poison::{DeadLetterWindow, KillerFile, Panicked, Sender, Suspect, guarded};
pub use processor::Machine;
pub use query::{AgentView, Ask, CounterView, Standing, TaskState, TaskView};
pub use recent::{Numbered, Recent};
pub use restore::Restore;
pub use restored::{Ready, RestoreError, RestoreStep, Waited};
pub use restorer::{Answer, InlineRestorer, RestorePool, Restorer};
pub use retention::sweep;
pub use settings::{Breaker, Clock, CommitTrigger, DeadLetterContent, LaneSettings, OnInputLoss, ProcessMode};
pub use stats::{COMMIT_STEPS, LaneMetric, Samples, Stats, Value};
pub use supervise::{Fleet, LaneHandle, LaneReport, SystemClock, Worker, run_to_end};
pub use task::{Draining, Poisoned, Restoring, Running, Task};
