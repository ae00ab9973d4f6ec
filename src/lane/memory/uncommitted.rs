//! State that a commit makes true and a rewind takes back.

use std::ops::{Deref, DerefMut};

use loopwarden_core::event::TaskId;
use loopwarden_state::{Change, StoreError};

/// A part of a task's state that changes between two commits.
pub(crate) trait Uncommitted {
    /// Gives away what the store lacks: what is staged is either committed or rewound.
    fn changes(&mut self, task: TaskId, out: &mut Vec<Change>) -> Result<(), StoreError>;

    /// The changes are true.
    fn committed(&mut self);

    /// The changes never happened.
    fn rewind(&mut self);
}

/// A value as of now, and as of the last commit. What the store keeps of it is its owner's to give away.
#[derive(Debug, Clone, Default)]
pub(crate) struct Versioned<T> {
    now: T,
    committed: T,
}

impl<T: Clone + PartialEq> Versioned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { now: value.clone(), committed: value }
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.now != self.committed
    }

    pub(crate) const fn as_committed(&self) -> &T {
        &self.committed
    }
}

impl<T> Deref for Versioned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.now
    }
}

impl<T> DerefMut for Versioned<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.now
    }
}

impl<T: Clone + PartialEq> Uncommitted for Versioned<T> {
    fn changes(&mut self, _: TaskId, _: &mut Vec<Change>) -> Result<(), StoreError> {
        Ok(())
    }

    fn committed(&mut self) {
        if self.is_changed() {
            self.committed.clone_from(&self.now);
        }
    }

    fn rewind(&mut self) {
        self.now.clone_from(&self.committed);
    }
}
