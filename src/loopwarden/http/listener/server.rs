//! The listener: binds, answers on a runtime of its own, and ends within a bounded time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use loopwarden_core::limits;
use loopwarden_ingest::mapping::Mapping;
use loopwarden_log::LogError;
use loopwarden_log::embedded::EmbeddedBroker;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::http::access::door::Door;
use crate::http::access::rate;
use crate::http::backlog::{Backlog, BacklogLimits};
use crate::http::check::Desk;
use crate::http::intake::otlp_sessions::Exports;
use crate::http::listener::{body, connection, metrics};
use crate::http::shared::{APPENDS, Embedded, READS, Shared};
use crate::http::views::process_status::ProcessStatus;
use crate::http::{check, router};
use crate::input_quality::InputQuality;

/// Threads that answer. Handlers never block them.
const WORKERS: usize = 2;
/// Questions to lanes at once.
const ASKS: usize = 4;
/// How long open answers may go on when the process ends.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What the listener is told once.
pub struct Options {
    pub listen: SocketAddr,
    /// Who is let in.
    pub door: Door,
    /// What makes events of foreign JSON.
    pub mapping: Option<Mapping>,
    /// The embedded log; none with Kafka, where `/v1` has nothing to say.
    pub embedded: Option<EmbeddedBroker>,
    /// Largest event that is decoded. Bytes.
    pub event_bytes_max: usize,
    /// Topic name of events, as records carry it.
    pub topic: String,
    /// Who sends, and how much of it can be compared.
    pub quality: Arc<InputQuality>,
}

/// Why it does not listen.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be had, or threads cannot be started.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// The verdicts in force cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
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
    /// The address is in use or not ours; threads cannot be started; the embedded log cannot be read.
    pub fn start(options: Options, warden: Arc<dyn ProcessStatus>) -> Result<Self, StartError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(ASKS + READS + APPENDS + check::APPENDS + check::LOOK_UPS)
            .thread_name("http")
            .enable_io()
            .enable_time()
            .build()?;
        let listener = runtime.block_on(connection::Listener::bind(options.listen))?;
        let address = listener.address();
        // Maybe long before the line that says ready: who waits for a restore may look at how it goes.
        tracing::info!(%address, "listening");
        let (stop, stopping) = watch::channel(false);
        let (mut desk, mut embedded) = (None, None);
        if let Some(broker) = options.embedded {
            let backlog = warden.backlog().map_or_else(|| Backlog::open(&broker, BacklogLimits::default()), Ok)?;
            let quality = Arc::clone(&options.quality);
            desk = Some(Desk::embedded(broker.clone(), Arc::clone(&backlog), options.event_bytes_max, quality)?);
            embedded = Some(runtime.block_on(async { Embedded::new(broker, backlog) }));
        }
        let shared = Arc::new(Shared {
            warden,
            mapping: options.mapping,
            embedded,
            event_bytes_max: options.event_bytes_max,
            topic: options.topic,
            counts: metrics::Counts::default(),
            rates: rate::Rates::new(options.door.tokens()),
            door: options.door,
            asks: Arc::new(Semaphore::new(ASKS)),
            streams: Arc::new(Semaphore::new(limits::HTTP_STREAMS_MAX)),
            exports: Exports::default(),
            quality: options.quality,
            bodies: Arc::new(Semaphore::new(limits::HTTP_BODIES_BYTES_MAX / body::BODY_UNIT)),
            stopping: stopping.clone(),
            desk,
        });
        let service = router::router(&shared).into_make_service_with_connect_info::<connection::Peer>();
        let serve = axum::serve(listener, service).with_graceful_shutdown(is_true(stopping));
        let serving = runtime.spawn(serve.into_future().map(drop));
        Ok(Self { runtime, stop, serving, address })
    }

    /// Where it listens: the port is known even where 0 was asked for.
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
