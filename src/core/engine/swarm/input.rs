//! What goes into a counter of the swarm stage.

use crate::engine::{swarm::sums::SwarmReport, timer::TimerKind};
use crate::event::EventTime;

/// One input of a swarm counter.
#[derive(Debug, Clone)]
pub enum SwarmInput {
    Report(SwarmReport),
    /// Calls up to this time no longer count.
    Reset(EventTime),
    /// Another policy is in force: what was used is compared with its limits.
    Compare,
    /// A timer of this counter fell due.
    Timer(TimerKind, EventTime),
}
