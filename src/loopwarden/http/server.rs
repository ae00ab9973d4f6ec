//! The listener: binds, answers on a runtime of its own, and ends within a bounded time.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use futures_util::FutureExt as _;
use loopwarden_core::limits;
use loopwarden_log::{LogError, embedded::EmbeddedBroker};
use loopwarden_sources::mapping::Mapping;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::http::backlog::{Backlog, BacklogLimits};
use crate::http::listener::connection::{Listener, Peer};
use crate::http::shared::{ACTS, APPENDS, Embedded, Process, READS, Shared, Sidecar, TopicWriter};
use crate::http::{check, routes};
use crate::{
    http::access::door::Door, http::access::principal::AnswerLinks, http::access::rate::Rates, http::check::Desk,
    http::intake::otlp_sessions::Exports, http::listener::body::Bodies, http::listener::endpoint::Endpoint,
    http::listener::metrics::Counts, http::views::process_status::ProcessStatus, input_quality::InputQuality,
};

/// Threads that answer. Handlers never block them.
const WORKERS: usize = 2;
/// Questions to lanes at once; of a guard, exports that are read.
const ASKS: usize = 4;
/// Wait for a complete body where an agent waits for the answer: it gave up long before.
const CHECK_BODY_WAIT: Duration = Duration::from_secs(10);
/// How long open answers may go on when the process ends.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// What the listener of a process is told once.
pub struct Options {
    pub listen: SocketAddr,
    /// Who is let in.
    pub door: Door,
    /// What makes events of foreign JSON.
    pub mapping: Option<Mapping>,
    /// The embedded log; none with Kafka, where `/v1` has nothing to say.
    pub embedded: Option<EmbeddedBroker>,
    /// With Kafka, what writes acts of people to the topic of events.
    pub topic_writer: Option<TopicWriter>,
    /// Links of messages by which people answer; none: no link is one.
    pub links: Option<AnswerLinks>,
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
    endpoint: Endpoint,
}

impl Server {
    /// Listens and answers for a process.
    ///
    /// # Errors
    /// The address is in use or not ours; threads cannot be started; the embedded log cannot be read.
    pub fn of_process(options: Options, status: Arc<dyn ProcessStatus>) -> Result<Self, StartError> {
        Self::start(&Endpoint::Address(options.listen), |bound, stopping| {
            // Maybe long before the line that says ready: who waits for a restore may look at how it goes.
            if let Endpoint::Address(address) = bound {
                tracing::info!(%address, "listening");
            }
            let Options { door, mapping, embedded: broker, topic_writer, links, event_bytes_max, topic, quality, .. } = options;
            let (mut desk, mut embedded) = (None, None);
            if let Some(broker) = broker {
                let backlog = status.backlog().map_or_else(|| Backlog::open(&broker, BacklogLimits::default()), Ok)?;
                let quality = Arc::clone(&quality);
                desk = Some(Arc::new(Desk::embedded(broker.clone(), Arc::clone(&backlog), event_bytes_max, quality)?));
                embedded = Some(Embedded::new(broker, backlog));
            }
            let shared = shared((door, desk), quality, event_bytes_max, false);
            let (asks, streams) = (Arc::new(Semaphore::new(ASKS)), Arc::new(Semaphore::new(limits::HTTP_STREAMS_MAX)));
            let acts = Arc::new(Semaphore::new(ACTS));
            let process =
                Process { shared, status, mapping, embedded, topic_writer, links, topic, acts, asks, streams, stopping };
            Ok(routes::of_process(&Arc::new(process)))
        })
    }

    /// Listens and answers for a guard beside an agent, whose metrics are this text.
    ///
    /// # Errors
    /// The endpoint is taken or not ours; threads cannot be started.
    pub fn of_guard(
        endpoint: &Endpoint,
        door: Door,
        desk: Arc<Desk>,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start(endpoint, |_, _| {
            let shared = shared((door, Some(Arc::clone(&desk))), desk.quality(), desk.event_bytes_max(), true);
            let sidecar = Sidecar { shared, desk, metrics: Box::new(metrics), reads: Arc::new(Semaphore::new(ASKS)) };
            Ok(routes::of_guard(&Arc::new(sidecar)))
        })
    }

    fn start<E: From<io::Error>>(
        endpoint: &Endpoint,
        router: impl FnOnce(&Endpoint, watch::Receiver<bool>) -> Result<Router, E>,
    ) -> Result<Self, E> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(ASKS + ACTS + READS + APPENDS + check::APPENDS + check::LOOK_UPS)
            .thread_name("http")
            .enable_io()
            .enable_time()
            .build()?;
        let (stop, mut stopping) = watch::channel(false);
        let (endpoint, serving) = runtime.block_on(async {
            let (listener, bound) = Listener::bind(endpoint).await?;
            let service = router(&bound, stopping.clone())?.into_make_service_with_connect_info::<Peer>();
            let stopped = async move {
                // An error means that the server was dropped, which ends it too.
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            };
            let serve = axum::serve(listener, service).with_graceful_shutdown(stopped);
            Ok::<_, E>((bound, tokio::spawn(serve.into_future().map(drop))))
        })?;
        Ok(Self { runtime, stop, serving, endpoint })
    }

    /// Where it listens: the port is known even where 0 was asked for.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The same, where that is an address.
    pub const fn address(&self) -> Option<SocketAddr> {
        match self.endpoint {
            Endpoint::Address(address) => Some(address),
            Endpoint::Socket(_) => None,
        }
    }

    /// Ends it: streams end, other answers are given if they come soon.
    pub fn stop(self) {
        // Nobody listens where the listener has failed already.
        let _ = self.stop.send(true);
        let serving = self.serving;
        let _ = self.runtime.block_on(async { tokio::time::timeout(STOP_WAIT, serving).await });
        if let Endpoint::Socket(path) = &self.endpoint {
            // Whoever finds it asks nobody, and goes on.
            let _ = std::fs::remove_file(path);
        }
        self.runtime.shutdown_timeout(STOP_WAIT);
    }
}

fn shared(
    (door, desk): (Door, Option<Arc<Desk>>),
    quality: Arc<InputQuality>,
    event_bytes_max: usize,
    is_for_agents: bool,
) -> Arc<Shared> {
    Arc::new(Shared {
        counts: Counts::of(routes::ROUTES.iter().map(|route| route.path)),
        rates: if is_for_agents { Rates::of_strangers() } else { Rates::new(door.tokens()) },
        door,
        bodies: Bodies::new(limits::HTTP_BODY_WAIT),
        checks: Bodies::new(CHECK_BODY_WAIT),
        exports: Exports::default(),
        quality,
        event_bytes_max,
        desk,
        is_for_agents,
    })
}
