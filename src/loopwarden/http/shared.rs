//! What handlers share: the process behind the listener, the embedded log, and the limits of what clients can hold.

use std::sync::Arc;

use axum::http::StatusCode;
use loopwarden_ingest::mapping::Mapping;
use loopwarden_log::embedded::{EmbeddedBroker, EmbeddedReader, Feed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::http::backlog::Backlog;
use crate::http::check::desk::Desk;
use crate::http::door::Door;
use crate::http::exports::Exports;
use crate::http::process_status::ProcessStatus;
use crate::http::{answer, metrics, rate};
use crate::input_quality::InputQuality;

/// Reads of the embedded log at once.
pub(super) const READS: usize = 8;
/// Appends to it at once.
pub(super) const APPENDS: usize = 8;

/// What handlers share.
pub(super) struct Shared {
    pub(super) warden: Arc<dyn ProcessStatus>,
    /// Who is let in.
    pub(super) door: Door,
    pub(super) mapping: Option<Mapping>,
    pub(super) embedded: Option<Embedded>,
    pub(super) event_bytes_max: usize,
    pub(super) topic: String,
    pub(super) counts: metrics::Counts,
    pub(super) rates: rate::Rates,
    pub(super) asks: Arc<Semaphore>,
    /// Open streams and long polls.
    pub(super) streams: Arc<Semaphore>,
    /// Memory for bodies on their way in, in units of `body::BODY_UNIT`.
    pub(super) bodies: Arc<Semaphore>,
    /// What exports of OpenTelemetry leave behind for the next ones.
    pub(super) exports: Exports,
    /// Who sends, and how much of it can be compared.
    pub(super) quality: Arc<InputQuality>,
    pub(super) stopping: watch::Receiver<bool>,
    /// What answers checks; none with Kafka, where a guard of its own does.
    pub(super) desk: Option<Desk>,
}

impl Shared {
    /// A place among the open streams; `message` says to whom there is none what they are.
    pub(super) fn take_stream(&self, message: &str) -> Result<OwnedSemaphorePermit, answer::Refusal> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        taken.map_err(|_| answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message, 5).into())
    }
}

/// The embedded log, as handlers use it.
pub(super) struct Embedded {
    pub(super) broker: EmbeddedBroker,
    pub(super) reader: EmbeddedReader,
    /// What waits to be judged.
    pub(super) backlog: Arc<Backlog>,
    pub(super) reads: Arc<Semaphore>,
    pub(super) appends: Arc<Semaphore>,
    /// Changes after each sync.
    pub(super) synced: watch::Receiver<()>,
    /// Number of the next command that may be seen.
    pub(super) commands_end: watch::Receiver<u64>,
}

impl Embedded {
    /// Must be called inside of the runtime.
    pub(super) fn new(broker: EmbeddedBroker, backlog: Arc<Backlog>) -> Self {
        let reader = broker.reader();
        let (announce, synced) = watch::channel(());
        let (tell_end, commands_end) = watch::channel(reader.range(Feed::Commands).end);
        // The callback outlives the server; it holds nothing but the channel.
        broker.on_synced(move || announce.send_modify(|()| {}));
        let (watched, mut after_sync) = (reader.clone(), synced.clone());
        tokio::spawn(async move {
            while after_sync.changed().await.is_ok() {
                let end = watched.range(Feed::Commands).end;
                tell_end.send_if_modified(|known| std::mem::replace(known, end) != end);
            }
        });
        let (reads, appends) = (Arc::new(Semaphore::new(READS)), Arc::new(Semaphore::new(APPENDS)));
        Self { broker, reader, backlog, reads, appends, synced, commands_end }
    }
}
