//! Where an intake stands in a partition.

use std::mem;

use loopwarden_core::event::NextOffset;
use loopwarden_lane::DeadLetterWindow;

/// What is done with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// The group is to be asked where it stands, not before this time. Monotonic ms.
    Asking(u64),
    /// It is read.
    Running,
    /// It has stopped itself.
    Stopped(String),
}

/// A partition that was given to the intake.
#[derive(Debug, Clone)]
pub(crate) struct SourcePartition {
    pub(crate) state: State,
    /// The group's offset, as of the last commit; none before the first one.
    pub(crate) committed: Option<NextOffset>,
    /// The offset to read next.
    pub(crate) next: NextOffset,
    /// It is to be read from a place that the group does not know yet.
    is_unwritten: bool,
    pub(crate) window: DeadLetterWindow,
    window_committed: DeadLetterWindow,
}

impl SourcePartition {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            state: State::Asking(now_ms),
            committed: None,
            next: NextOffset(0),
            is_unwritten: false,
            window: DeadLetterWindow::default(),
            window_committed: DeadLetterWindow::default(),
        }
    }

    /// The group stands at `committed`, and it is read from `next`.
    pub(crate) fn run(&mut self, committed: Option<NextOffset>, next: NextOffset) {
        self.is_unwritten = committed != Some(next);
        (self.committed, self.next, self.state) = (committed, next, State::Running);
    }

    /// Whether a commit would say something of it.
    pub(crate) fn is_touched(&self) -> bool {
        !matches!(self.state, State::Asking(_)) && self.committed != Some(self.next)
    }

    pub(crate) const fn is_unwritten(&self) -> bool {
        self.is_unwritten
    }

    /// What it says is committed.
    pub(crate) fn commit(&mut self) {
        self.committed = Some(self.next);
        self.is_unwritten = false;
        self.window_committed.clone_from(&self.window);
    }

    /// Back to the last commit.
    pub(crate) fn rewind(&mut self, now_ms: u64) {
        self.window.clone_from(&self.window_committed);
        if mem::take(&mut self.is_unwritten) {
            self.state = State::Asking(now_ms);
        } else if let Some(committed) = self.committed {
            self.next = committed;
        }
    }
}
