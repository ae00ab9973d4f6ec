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
    /// A stop of an operator ends, or is forgotten.
    Stop = 6,
}

impl TimerKind {
    pub const ALL: [Self; 6] = [Self::Idle, Self::OpenCalls, Self::Verdicts, Self::Panes, Self::SwarmVerdicts, Self::Stop];
    /// The kinds of a session.
    pub const OF_SESSION: [Self; 3] = [Self::Idle, Self::OpenCalls, Self::Verdicts];
    /// The kinds of a swarm counter.
    pub const OF_COUNTER: [Self; 2] = [Self::Panes, Self::SwarmVerdicts];

    /// Its place in the table of its subject. A table belongs to a session or to a counter, so the two share their places; a stop has one
    /// timer, and no table.
    const fn slot(self) -> usize {
        match self {
            Self::Idle | Self::Panes | Self::Stop => 0,
            Self::OpenCalls | Self::SwarmVerdicts => 1,
            Self::Verdicts => 2,
        }
    }

    /// The kind with that number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its number in stored keys.
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
            Self::Stop => "stop",
        }
    }
}

/// A timer of the subject that is being applied, moved from one due time to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimerChange {
    pub kind: TimerKind,
    /// Where it stood; its key is deleted.
    pub was: Option<EventTime>,
    /// Where it stands now; its key is written.
    pub now: Option<EventTime>,
}

/// Where the timers of one subject stand, by their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerTable {
    due: [Option<EventTime>; TimerKind::OF_SESSION.len()],
}

impl TimerTable {
    /// A table from what was stored.
    pub fn restored(timers: impl IntoIterator<Item = (TimerKind, Option<EventTime>)>) -> Self {
        let mut table = Self::default();
        for (kind, due) in timers {
            table.set(kind, due);
        }
        table
    }

    /// When a timer is due; `None` = it is not armed.
    pub fn due(&self, kind: TimerKind) -> Option<EventTime> {
        self.due.get(kind.slot()).copied().flatten()
    }

    /// Sets a timer without a [`TimerChange`]: for state that was stored, or whose keys are gone.
    pub fn set(&mut self, kind: TimerKind, due: Option<EventTime>) {
        if let Some(slot) = self.due.get_mut(kind.slot()) {
            *slot = due;
        }
    }

    /// Moves a timer, or disarms it (`None`). A timer that stands there already makes no change.
    pub(super) fn arm(&mut self, kind: TimerKind, due: Option<EventTime>, changes: &mut Vec<TimerChange>) {
        let was = self.due(kind);
        if was != due {
            changes.push(TimerChange { kind, was, now: due });
            self.set(kind, due);
        }
    }

    /// A timer has fired: its key is deleted already.
    pub(super) fn fired(&mut self, kind: TimerKind) {
        self.set(kind, None);
    }
}
