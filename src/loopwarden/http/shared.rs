//! What handlers share: the process behind the listener, the embedded log, and the limits of what clients can hold.

use std::sync::Arc;

use axum::http::StatusCode;
use loopwarden_ingest::mapping::Mapping;
use loopwarden_log::embedded::{EmbeddedBroker, EmbeddedReader, Feed};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::http::access::door::Door;
use crate::http::access::rate;
use crate::http::answer;
use crate::http::backlog::Backlog;
use crate::http::check::desk::Desk;
use crate::http::intake::otlp_sessions::Exports;
use crate::http::listener::metrics;
use crate::http::views::process_status::ProcessStatus;
use crate::input_quality::InputQuality;

/// Reads of the embedded log at once.
pub(crate) const READS: usize = 8;
/// Appends to it at once.
pub(crate) const APPENDS: usize = 8;

/// What handlers share.
pub(crate) struct Shared {
    pub(crate) warden: Arc<dyn ProcessStatus>,
    /// Who is let in.
    pub(crate) door: Door,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) embedded: Option<Embedded>,
    pub(crate) event_bytes_max: usize,
    pub(crate) topic: String,
    pub(crate) counts: metrics::Counts,
    pub(crate) rates: rate::Rates,
    pub(crate) asks: Arc<Semaphore>,
    /// Open streams and long polls.
    pub(crate) streams: Arc<Semaphore>,
    /// Memory for bodies on their way in, in units of `body::BODY_UNIT`.
    pub(crate) bodies: Arc<Semaphore>,
    /// What exports of OpenTelemetry leave behind for the next ones.
    pub(crate) exports: Exports,
    /// Who sends, and how much of it can be compared.
    pub(crate) quality: Arc<InputQuality>,
    pub(crate) stopping: watch::Receiver<bool>,
    /// What answers checks; none with Kafka, where a guard of its own does.
    pub(crate) desk: Option<Desk>,
}

impl Shared {
    /// A place among the open streams; `message` says to whom there is none what they are.
    pub(crate) fn take_stream(&self, message: &str) -> Result<OwnedSemaphorePermit, answer::Refusal> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        taken.map_err(|_| answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message, 5).into())
    }
}

/// The embedded log, as handlers use it.
pub(crate) struct Embedded {
    pub(crate) broker: EmbeddedBroker,
    pub(crate) reader: EmbeddedReader,
    /// What waits to be judged.
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) appends: Arc<Semaphore>,
    /// Changes after each sync.
    pub(crate) synced: watch::Receiver<()>,
    /// Number of the next command that may be seen.
    pub(crate) commands_end: watch::Receiver<u64>,
}

impl Embedded {
    /// Must be called inside of the runtime.
    pub(crate) fn new(broker: EmbeddedBroker, backlog: Arc<Backlog>) -> Self {
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
