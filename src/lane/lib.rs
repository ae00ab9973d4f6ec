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

mod commit;
mod encode;
mod foreign;
mod memory;
mod metrics;
mod restore;
mod settings;
mod stage;
mod sums;
mod task;
mod thread;

pub use commit::recent::{Numbered, Recent};
pub use encode::Encoder;
pub use foreign::form::Form;
pub use foreign::group::GroupRestorer;
pub use foreign::processor::{Foreign, ForeignSettings};
pub use foreign::report::{IntakeReport, IntakeStats};
pub use metrics::histogram::{BUCKETS_US, Histogram};
pub use metrics::stats::{COMMIT_STEPS, LaneMetric, Samples, Stats, Value};
pub use restore::machine::Restore;
pub use restore::outcome::{Ready, RestoreError, RestoreStep, Waited};
pub use restore::workers::{Answer, InlineRestorer, RestorePool, Restorer};
pub use settings::{Breaker, Clock, CommitTrigger, DeadLetterContent, LaneSettings, OnInputLoss, ProcessMode};
pub use stage::context::Observer;
pub use stage::poison::{KillerFile, Suspect};
pub use task::lease::{Lease, Leases};
pub use task::listing::{Listed, Listing, Places, SessionOrder, SessionRow, SessionState};
pub use task::query::{AgentView, Ask, BudgetView, CounterView, Matching, Standing, TaskState, TaskView};
pub use task::retention::sweep;
pub use task::state::{Draining, Poisoned, Restoring, Running, Task};
pub use thread::exit::Exit;
pub use thread::lane::{Lane, Order, Turn};
pub use thread::pace::Pace;
pub use thread::supervise::{Fleet, LaneHandle, LaneReport, SystemClock};
