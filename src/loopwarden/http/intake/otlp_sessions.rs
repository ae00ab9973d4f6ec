//! What is remembered between exports of OpenTelemetry: sessions of traces.

use std::sync::{Mutex, PoisonError};

use loopwarden_core::event::EventTime;
use loopwarden_sources::otlp::{FORM, Form, Signal, read};
use loopwarden_sources::{Batch, Fault, INFLATED_BYTES_MAX, Sessions, inflate};

use crate::input_quality::InputQuality;

/// One at a time: what a body becomes in memory is bounded, and two bodies of one trace agree on its session.
#[derive(Debug, Default)]
pub(crate) struct Exports(Mutex<Sessions>);

impl Exports {
    /// Reads a body, and tells what came of it.
    pub(crate) fn read(
        &self,
        what: (Signal, Form),
        (body, is_gzip): (&[u8], bool),
        now: EventTime,
        event_bytes_max: usize,
        quality: &InputQuality,
    ) -> Result<Batch, Fault> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inflated = if is_gzip { inflate(body, INFLATED_BYTES_MAX).map(Some) } else { Ok(None) };
        let read =
            inflated.and_then(|inflated| read(what, inflated.as_deref().unwrap_or(body), &mut sessions, now, event_bytes_max));
        match read {
            Ok(mut batch) => {
                quality.take(&mut batch);
                Ok(batch)
            }
            Err(fault) => {
                quality.refuse(FORM);
                Err(fault)
            }
        }
    }
}
