//! The machines: a session, a swarm. `apply(state, input) -> effects`; it cannot fail, and it reads no clock.
//!
//! Who runs a machine keeps its state, and does the following, in this order, for each input:
//!
//! 1. [`Effects::clear`]: effects are of one input.
//! 2. [`SessionEngine::apply`] with the session of the subject, or [`SwarmEngine::apply`] with the counter of the key. The inputs of a
//!    subject come in the order of its records; a timer that is due at the watermark comes before the record that moved it.
//! 3. What is in the effects, all of it or nothing: commands in their order; then the state row, where `verdicts_changed`; timers;
//!    calls and resets for the swarm stage. After `forgotten` the state is dropped.
//!
//! An event of a session is walked in four calls:
//!
//! - `record`: the event becomes a step, a reset, a message. What detectors are to look at is in its `Recorded`.
//! - `observe`: the detectors look, and answer with findings. Those that a person has let be are dropped, the others noted at their
//!   steps.
//! - `decide`: at most one command comes of the findings.
//! - `publish` words it and puts its verdict on the board.
//!
//! Before them comes what holds for every event: the session begins, its clock moves, verdicts have expired, policy or world have
//! changed. Behind them its timers are armed. What is added up of it stands apart (`accounts`): taken before, written after, and read by
//! none of the four.
//!
//! Where calls are judged by turn, the end of a turn is a moment of its own before the event that ended it: the last three calls are
//! made for it too.

mod accounts;
mod agent_state;
mod apply;
mod command;
mod context;
mod cost;
mod due;
mod effects;
mod exemptions;
mod input;
mod marks;
mod observe;
mod session;
mod stop;
mod subject;
mod swarm;
mod timer;
mod tree;
mod watched;
mod watching;

// The rooms in their order: each imports from those above it only.

/// From the findings of one moment to at most one command: fusion, and the episode it belongs to.
mod deciding {
    pub(crate) mod decide;
    pub(crate) mod episode;
    pub(crate) mod fusion;
}

/// A decision becomes a command, with its words, and a verdict in force.
mod publishing {
    pub(crate) mod board;
    pub(crate) mod message;
    pub(crate) mod publish;
}

/// What an event changes in a session: calls and answers become steps, and what ends a loop is taken out.
mod recording {
    pub(crate) mod answers;
    pub(crate) mod calls;
    pub(crate) mod identify;
    pub(crate) mod lifecycle;
    pub(crate) mod record;
    pub(crate) mod swarm_calls;
    pub(crate) mod uses;
}

pub use agent_state::{AgentStanding, AgentState, Surroundings};
pub use apply::SessionEngine;
pub use command::*;
pub use cost::{Cost, OpenCost, OpenCosts, Spending};
pub use deciding::episode::{Episode, Track};
pub use deciding::fusion::{Fused, Recommended, fuse};
pub use effects::*;
pub use exemptions::{Exemption, Exemptions};
pub use input::{Input, SourcePosition};
pub use marks::Mark;
pub use publishing::board::{Board, OperatorStop, PlacedBy, Verdict, Verdicts};
pub use session::{Head, PendingNudge, Session};
pub use stop::{RELEASED, StopEffects, StopState};
pub use subject::{BY_STOP, SEPARATOR, SubjectKey, joined};
pub use swarm::{
    Contribution, Pane, Panes, Period, SeenBrief, Spawned, SpawnedWindow, SwarmCounter, SwarmEngine, SwarmEntry, SwarmInput,
    SwarmReport, SwarmSums, UsedWindow,
};
pub use timer::{TimerChange, TimerKind, TimerTable};
pub use tree::Tree;
pub use watched::{Watch, WatchedAgent};
pub use watching::{ArmSums, Moments, TrialSums, WentOn};
