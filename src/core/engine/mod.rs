//! The machines: a session, a swarm. `apply(state, input) -> effects`; it cannot fail, and it reads no clock.
//!
//! An event is first what it is (`apply`: redelivery, time, resets), then a step (`identify`, `calls`), then judged by the
//! detectors; what they find becomes at most one command (`decide`, `publish`).

mod apply;
mod calls;
mod command;
mod context;
mod decide;
mod effects;
mod episode;
mod fusion;
mod identify;
mod input;
mod invariants;
mod marks;
mod message;
mod moving;
mod publish;
mod session;
mod subject;
mod sums;
mod swarm;
mod swarm_reset;
mod swarm_verdicts;
mod timer;
mod windows;

pub use apply::SessionEngine;
pub use command::*;
pub use effects::*;
pub use episode::Episode;
pub use fusion::{Fused, Recommended, fuse};
pub use input::{Input, Place};
pub use invariants::Invariant;
pub use marks::Mark;
pub use session::{Awaited, Head, Session};
pub use subject::{SEPARATOR, SubjectKey, joined};
pub use sums::{SwarmEntry, SwarmReport, SwarmSums};
pub use swarm::*;
pub use timer::{TimerChange, TimerKind};
pub use windows::{Contribution, Pane, Panes};
