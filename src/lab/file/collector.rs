//! What a replay would have published, in the order of its input.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwarden_core::event::TaskId;
use loopwarden_log::Output;

use crate::file::exchange::Shared;

/// One output of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// Line that caused it; of the swarm stage, that of the last call in the sums that caused it.
    pub line: u64,
    /// Task that said it.
    pub task: TaskId,
    /// What would have been published.
    pub output: Output,
}

/// Takes the outputs of all lanes. Clones share it.
#[derive(Debug, Clone)]
pub struct Collector {
    collected: Arc<Mutex<Vec<Collected>>>,
    shared: Arc<Shared>,
}

impl Collector {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { collected: Arc::default(), shared }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Collected>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, outputs: Vec<Collected>) {
        self.lock().extend(outputs);
    }

    /// Takes everything that is there: by line, then by task (sessions before swarms), then as the task said it. Complete once
    /// every lane has come to its end.
    pub fn take(&self) -> Vec<Collected> {
        sorted(std::mem::take(&mut *self.lock()))
    }

    /// Takes what no lane can add to any more, so that a long replay need not be held in memory: what is taken in turn is what
    /// [`Collector::take`] would take at the end, in its order.
    pub fn take_settled(&self) -> Vec<Collected> {
        // Asked first: what is committed by then has been added.
        let floor = self.shared.floor();
        let mut collected = self.lock();
        let (ready, rest) = std::mem::take(&mut *collected).into_iter().partition(|collected| collected.line < floor);
        *collected = rest;
        drop(collected);
        sorted(ready)
    }
}

fn sorted(mut collected: Vec<Collected>) -> Vec<Collected> {
    collected.sort_by_key(|collected| (collected.line, collected.task));
    collected
}
