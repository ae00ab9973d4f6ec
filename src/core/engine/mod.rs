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
//! An event of a session is walked in four calls, once each:
//!
//! - `record`: the event becomes a step, a reset, a message. What detectors are to look at is in its `Recorded`.
//! - `observe`: the detectors look, and answer with findings.
//! - `decide`: at most one command comes of the findings.
//! - `publish` words it and puts its verdict on the board.
//!
//! What is added up of it stands apart (`accounts`): taken before, written after, and read by none of the four.
//!
//! Where calls are judged by turn, the end of a turn is looked at in the same way, before the event that ended it.

mod accounts;
mod agent_state;
mod apply;
mod context;
mod cost;
/// From the findings of one moment to at most one command: fusion, and the episode it belongs to.
mod deciding {
    pub(crate) mod decide;
    pub(crate) mod episode;
    pub(crate) mod fusion;
}
mod due;
mod effects;
mod exemptions;
mod input;
mod marks;
mod observe;
/// A decision becomes a command, with its words, and a verdict in force.
mod publishing {
    pub(crate) mod board;
    pub(crate) mod command;
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
mod session;
mod stop;
mod subject;
mod swarm;
mod timer;
mod tree;
mod watched;
mod watching;

pub use agent_state::{AgentStanding, AgentState, Surroundings};
pub use apply::SessionEngine;
pub use cost::{Cost, OpenCost, OpenCosts, Spending};
pub use deciding::episode::{Episode, Track};
pub use deciding::fusion::{Fused, Recommended, fuse};
pub use effects::*;
pub use exemptions::{Exemption, Exemptions};
pub use input::{Input, SourcePosition};
pub use marks::Mark;
pub use publishing::board::{Board, OperatorStop, PlacedBy, Verdict, Verdicts};
pub use publishing::command::*;
pub use session::{Head, PendingNudge, Session};
pub use stop::{StopEffects, StopState};
pub use subject::{BY_STOP, SEPARATOR, SubjectKey, joined};
pub use swarm::{
    Contribution, Pane, Panes, Period, SeenBrief, Spawned, SpawnedWindow, SwarmCounter, SwarmEngine, SwarmEntry, SwarmInput,
    SwarmReport, SwarmSums, UsedWindow,
};
pub use timer::{TimerChange, TimerKind, TimerTable};
pub use tree::Tree;
pub use watched::{Watch, WatchedAgent};
pub use watching::{ArmSums, Moments, TrialSums, WentOn};
