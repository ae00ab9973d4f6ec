//! What handlers share: of every listener, of a process, of a guard beside an agent.

use std::sync::Arc;

use axum::http::StatusCode;
use loopwarden_lane::View;
use loopwarden_log::LogError;
use loopwarden_log::embedded::{EmbeddedBroker, EmbeddedReader, Feed};
use loopwarden_sources::mapping::Mapping;
use loopwarden_state::StoreError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::operate::lanes::{Unanswered, answers};
use crate::{
    http::access::door::Door, http::access::principal::AnswerLinks, http::access::rate::Rates, http::answer,
    http::answer::Refusal, http::backlog::Backlog, http::check::desk::Desk, http::intake::otlp_sessions::Exports,
    http::listener::body::Bodies, http::listener::metrics::Counts, http::views::process_status::ProcessStatus,
    input_quality::InputQuality,
};

/// Reads of the embedded log at once.
pub(crate) const READS: usize = 8;
/// Appends to it at once.
pub(crate) const APPENDS: usize = 8;
/// Acts on their way to a topic at once.
pub(crate) const ACTS: usize = 2;

/// Writes one event to the topic of events under its key, and waits until brokers have it: its partition and offset.
pub type TopicWriter = Arc<dyn Fn(&str, &[u8]) -> Result<Option<(u32, u64)>, LogError> + Send + Sync>;

/// What the routes of every listener share.
pub(crate) struct Shared {
    /// Who is let in.
    pub(crate) door: Door,
    pub(crate) counts: Counts,
    pub(crate) rates: Rates,
    /// Of events and exports.
    pub(crate) bodies: Bodies,
    /// Of agents that wait for an answer.
    pub(crate) checks: Bodies,
    /// What exports of OpenTelemetry leave behind for the next ones.
    pub(crate) exports: Exports,
    /// Who sends, and how much of it can be compared.
    pub(crate) quality: Arc<InputQuality>,
    /// Largest event that is decoded. Bytes.
    pub(crate) event_bytes_max: usize,
    /// What answers checks; none with Kafka, where a guard of its own does.
    pub(crate) desk: Option<Arc<Desk>>,
    /// Every error is a problem (RFC 9457): whoever asks here is an agent.
    pub(crate) is_for_agents: bool,
}

impl Shared {
    /// # Errors
    /// A process with Kafka answers no checks.
    pub(crate) fn desk(&self) -> Result<&Desk, Refusal> {
        self.desk.as_deref().ok_or_else(|| answer::embedded_only().into())
    }
}

/// What the routes of a process share.
pub(crate) struct Process {
    pub(crate) shared: Arc<Shared>,
    pub(crate) status: Arc<dyn ProcessStatus>,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) embedded: Option<Embedded>,
    /// With Kafka, what writes acts to the topic of events.
    pub(crate) topic_writer: Option<TopicWriter>,
    /// Links that are taken, if there are any.
    pub(crate) links: Option<AnswerLinks>,
    pub(crate) topic: String,
    pub(crate) acts: Arc<Semaphore>,
    pub(crate) asks: Arc<Semaphore>,
    /// Open streams and long polls.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Process {
    /// # Errors
    /// The process has no log of its own.
    pub(crate) fn log(&self) -> Result<&Embedded, Refusal> {
        self.embedded.as_ref().ok_or_else(|| answer::embedded_only().into())
    }

    /// # Errors
    /// Nothing takes what people do.
    pub(crate) fn expect_acts(&self) -> Result<(), Refusal> {
        let is_taken = self.embedded.is_some() || self.topic_writer.is_some();
        is_taken.then_some(()).ok_or_else(|| answer::embedded_only().into())
    }

    /// Asks the process on a thread that may block.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn ProcessStatus) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let status = Arc::clone(&self.status);
        answer::blocking(&self.asks, move || question(&*status)).await
    }

    /// What each lane of the process answers.
    pub(crate) async fn ask_lanes<T: Send + 'static>(
        &self,
        question: impl Fn(&View<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<Result<Vec<T>, Unanswered>, Refusal> {
        self.ask(move |status| answers(status, question)).await
    }

    /// A place among the open streams; `message` is for those to whom there is none.
    pub(crate) fn take_stream(&self, message: &str) -> Result<OwnedSemaphorePermit, Refusal> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        taken.map_err(|_| answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message, 5).into())
    }
}

/// What the routes of a guard beside an agent share.
pub(crate) struct Sidecar {
    pub(crate) shared: Arc<Shared>,
    pub(crate) desk: Arc<Desk>,
    /// Every metric, as OpenMetrics text.
    pub(crate) metrics: Box<dyn Fn() -> String + Send + Sync>,
    /// Exports that are read at once.
    pub(crate) reads: Arc<Semaphore>,
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
