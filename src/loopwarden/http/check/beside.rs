//! A guard beside an agent: verdicts come from elsewhere, events go elsewhere, and no answer waits for either.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use loopwarden_core::event::EventTime;
use loopwarden_guard::{Dropped, Knowledge, Record, Source};

/// Nothing is known yet.
const NEVER: i64 = i64::MIN;

/// Takes an event; false: there is no room.
pub type Send = Box<dyn Fn(&Record) -> bool + std::marker::Send + Sync>;

/// Where verdicts come from, and where events go.
pub(super) struct BesideSink {
    source: Source,
    /// Verdicts up to then are known. Unix milliseconds.
    as_of_ms: AtomicI64,
    /// How far the judging was behind then. Milliseconds.
    late_ms: AtomicI64,
    send: Send,
    dropped: AtomicU64,
}

impl BesideSink {
    pub(super) fn new(source: Source, send: Send) -> Self {
        Self { source, as_of_ms: AtomicI64::new(NEVER), late_ms: AtomicI64::new(0), send, dropped: AtomicU64::new(0) }
    }

    pub(super) fn knowledge(&self) -> Knowledge {
        let as_of_ms = self.as_of_ms.load(Ordering::Acquire);
        let late_ms = self.late_ms.load(Ordering::Acquire);
        Knowledge { as_of: (as_of_ms != NEVER).then_some(EventTime(as_of_ms)), late_ms, source: self.source }
    }

    /// All verdicts of `as_of` are known; their judging was so far behind.
    pub(super) fn is_current(&self, as_of: EventTime, late_ms: i64) {
        self.late_ms.store(late_ms, Ordering::Release);
        self.as_of_ms.fetch_max(as_of.0, Ordering::AcqRel);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn record(&self, events: &[Record]) -> Result<(), Dropped> {
        let refused = events.iter().filter(|event| !(self.send)(event)).count() as u64;
        self.dropped.fetch_add(refused, Ordering::Relaxed);
        if refused == 0 { Ok(()) } else { Err(Dropped::QueueFull) }
    }
}
