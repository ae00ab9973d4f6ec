//! What is remembered between exports of OpenTelemetry: sessions of traces, and what was logged about missing content.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use loopwarden_core::event::EventTime;
use loopwarden_ingest::otlp::{Form, Signal, read};
use loopwarden_ingest::{Batch, Fault, Sessions, inflate, limits};

/// One at a time: what a body becomes in memory is bounded, and two bodies of one trace agree on its session.
#[derive(Debug, Default)]
pub(super) struct Exports(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    sessions: Sessions,
    logged: BTreeSet<&'static str>,
}

impl Exports {
    /// Reads a body. What its senders could switch on is logged once.
    pub(super) fn read(
        &self,
        what: (Signal, Form),
        (body, is_gzip): (&[u8], bool),
        now: EventTime,
        event_bytes_max: usize,
    ) -> Result<Batch, Fault> {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Memory { sessions, logged } = &mut *memory;
        let inflated = if is_gzip { Some(inflate(body, limits::INFLATED_BYTES_MAX)?) } else { None };
        let batch = read(what, inflated.as_deref().unwrap_or(body), sessions, now, event_bytes_max)?;
        for hint in &batch.blind.hints {
            if logged.insert(hint) {
                tracing::warn!(hint, "calls arrive without arguments or results");
            }
        }
        Ok(batch)
    }
}
