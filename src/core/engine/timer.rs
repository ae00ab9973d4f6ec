//! The closed list of timers. Event time only: a timer fires when a record moves the task's watermark past it (rules I3–I5).

use crate::event::EventTime;

/// What is due. The numbers are stored in keys and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TimerKind {
    /// A session without events is forgotten.
    Idle = 1,
    /// Calls that never returned are closed unobserved.
    OpenCalls = 2,
    /// Verdicts expired: the state row is rewritten or ends.
    Verdicts = 3,
    /// Panes of a swarm counter leave the window.
    Panes = 4,
    /// Verdicts of a swarm or fleet subject expired.
    SwarmVerdicts = 5,
}

impl TimerKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Idle, Self::OpenCalls, Self::Verdicts, Self::Panes, Self::SwarmVerdicts];

    /// The kind with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its number in keys.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in a command's trigger.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::OpenCalls => "open_calls",
            Self::Verdicts => "verdicts",
            Self::Panes => "panes",
            Self::SwarmVerdicts => "swarm_verdicts",
        }
    }
}

/// A timer of the subject that is being applied, moved from one due time to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerChange {
    /// Which.
    pub kind: TimerKind,
    /// Where it stood; its key is deleted.
    pub was: Option<EventTime>,
    /// Where it stands now; its key is written.
    pub now: Option<EventTime>,
}
