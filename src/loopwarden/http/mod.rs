//! One listener: health, metrics, administration, the live page; in embedded mode events in and commands out.
//!
//! A small runtime of its own answers; lanes are asked through [`Warden`] and never wait for a client. What a client can hold is
//! bounded: connections, heads, bodies, streams, requests per second, and the time for each (`limits.rs`).
//!
//! ```text
//!   connection ──► gate: size, rate, access ──► handler ──► lanes (Warden) or embedded log
//!   (deadlines)        (routes, access)                      on blocking threads, few of them
//! ```

mod access;
mod admin;
mod answer;
mod commands;
mod connection;
mod events;
mod export;
mod metrics;
mod page;
mod query;
mod rate;
pub mod routes;
mod state;
mod view;
mod warden;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use access::Token;
use axum::http::StatusCode;
use futures_util::FutureExt as _;
use loopwarden_core::limits;
use loopwarden_log::embedded::{EmbeddedBroker, EmbeddedReader, Feed};
pub use metrics::Answered;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
pub use warden::{Probe, Unanswered, Warden};

/// Threads that answer. Handlers never block them.
const WORKERS: usize = 2;
/// Questions to lanes at once.
const ASKS: usize = 4;
/// Reads of the embedded log at once.
const READS: usize = 8;
/// Appends to it at once.
const APPENDS: usize = 8;
/// How long open answers may go on when the process ends.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What the listener is told once.
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// What opens admin and api routes to other hosts; none: loopback only.
    pub token: Option<Token>,
    /// The embedded log; none with Kafka, where `/v1` has nothing to say.
    pub embedded: Option<EmbeddedBroker>,
    /// Largest event that is decoded. Bytes.
    pub event_bytes_max: usize,
    /// Topic name of events, as records carry it.
    pub topic: String,
}

/// What handlers share.
struct Shared {
    warden: Arc<dyn Warden>,
    token: Option<Token>,
    embedded: Option<Embedded>,
    event_bytes_max: usize,
    topic: String,
    counts: metrics::Counts,
    rates: rate::Rates,
    asks: Arc<Semaphore>,
    /// Open streams and long polls.
    streams: Arc<Semaphore>,
    /// Memory for bodies on their way in, in units of [`events::BODY_UNIT`].
    bodies: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl Shared {
    /// A place among the open streams; `message` says to whom there is none what they are.
    fn take_stream(&self, message: &str) -> Result<OwnedSemaphorePermit, answer::Refusal> {
        let taken = Arc::clone(&self.streams).try_acquire_owned();
        taken.map_err(|_| answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", message, 5).into())
    }
}

/// The embedded log, as handlers use it.
struct Embedded {
    broker: EmbeddedBroker,
    reader: EmbeddedReader,
    reads: Arc<Semaphore>,
    appends: Arc<Semaphore>,
    /// Changes after each sync.
    synced: watch::Receiver<()>,
    /// Number of the next command that may be seen.
    commands_end: watch::Receiver<u64>,
}

/// The running listener.
pub struct Server {
    runtime: Runtime,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    address: SocketAddr,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens and answers.
    ///
    /// # Errors
    /// The address is in use or not ours; threads cannot be started.
    pub fn start(options: Options, warden: Arc<dyn Warden>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(ASKS + READS + APPENDS)
            .thread_name("http")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = runtime.block_on(connection::Listener::bind(options.listen))?;
        let address = listener.address();
        // Maybe long before the line that says ready: who waits for a restore may look at how it goes.
        tracing::info!(%address, "listening");
        let (stop, stopping) = watch::channel(false);
        let embedded = options.embedded.map(|broker| runtime.block_on(async { Embedded::new(broker) }));
        let shared = Arc::new(Shared {
            warden,
            token: options.token,
            embedded,
            event_bytes_max: options.event_bytes_max,
            topic: options.topic,
            counts: metrics::Counts::default(),
            rates: rate::Rates::new(),
            asks: Arc::new(Semaphore::new(ASKS)),
            streams: Arc::new(Semaphore::new(limits::HTTP_STREAMS_MAX)),
            bodies: Arc::new(Semaphore::new(limits::HTTP_BODIES_BYTES_MAX / events::BODY_UNIT)),
            stopping: stopping.clone(),
        });
        let service = routes::router(&shared).into_make_service_with_connect_info::<connection::Peer>();
        let serve = axum::serve(listener, service).with_graceful_shutdown(is_true(stopping));
        let serving = runtime.spawn(serve.into_future().map(drop));
        Ok(Self { runtime, stop, serving, address })
    }

    /// Where it listens: the port is known even where 0 was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it: streams end, other answers are given if they come soon.
    pub fn stop(self) {
        // Nobody listens where the listener has failed already.
        let _ = self.stop.send(true);
        let serving = self.serving;
        let _ = self.runtime.block_on(async { tokio::time::timeout(STOP_WAIT, serving).await });
        self.runtime.shutdown_timeout(STOP_WAIT);
    }
}

async fn is_true(mut flag: watch::Receiver<bool>) {
    // An error means that the server was dropped, which ends it too.
    let _ = flag.wait_for(|is_set| *is_set).await;
}

impl Embedded {
    /// Must be called inside of the runtime.
    fn new(broker: EmbeddedBroker) -> Self {
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
        Self { broker, reader, reads, appends, synced, commands_end }
    }
}
