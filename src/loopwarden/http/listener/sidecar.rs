//! The listener of a guard beside an agent: a socket file that only its user may open, or a loopback port.

use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use axum::body::Body;
use axum::extract::{ConnectInfo, Path as PathOf, Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, any, get, post};
use axum::{Extension, Router};
use loopwarden_ingest::otlp::Signal;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::access::door::{Asked, Door};
use crate::http::access::gate as access;
use crate::http::access::principal::Principal;
use crate::http::answer::Refusal;
use crate::http::check::Desk;
use crate::http::intake::otlp_sessions::Exports;
use crate::http::intake::{hooks, otlp};
use crate::http::listener::connection::{Listener, Peer};
use crate::http::{answer, check};

/// Threads that answer.
const WORKERS: usize = 2;
/// How long open answers may go on when the process ends.
const STOP_WAIT: Duration = Duration::from_secs(2);

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket file.
    Socket(PathBuf),
    /// An address; other hosts than this one need the token.
    Address(SocketAddr),
}

/// What the routes share.
struct Shared {
    desk: Arc<Desk>,
    exports: Arc<Exports>,
    door: Door,
    metrics: Box<dyn Fn() -> String + Send + Sync>,
}

/// The running listener.
pub struct Sidecar {
    runtime: Runtime,
    stop: watch::Sender<bool>,
    serving: JoinHandle<io::Result<()>>,
    /// Where it listens, for people.
    pub place: String,
    socket: Option<PathBuf>,
}

impl Sidecar {
    /// Listens and answers.
    ///
    /// # Errors
    /// The place is taken or not ours; threads cannot be started.
    pub fn start(
        place: &Endpoint,
        door: Door,
        desk: Arc<Desk>,
        metrics: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(WORKERS).thread_name("guard").enable_io().enable_time().build()?;
        let shared = Arc::new(Shared { desk, exports: Arc::default(), door, metrics: Box::new(metrics) });
        let router = router(&shared);
        let (stop, stopping) = watch::channel(false);
        let (serving, place, socket) = match place {
            Endpoint::Address(address) => {
                let listener = runtime.block_on(Listener::bind(*address))?;
                let place = format!("http://{}", listener.address());
                let service = router.into_make_service_with_connect_info::<Peer>();
                let serve = axum::serve(listener, service).with_graceful_shutdown(is_set(stopping));
                (runtime.spawn(serve.into_future()), place, None)
            }
            Endpoint::Socket(path) => {
                let listener = {
                    let _entered = runtime.enter();
                    bind(path)?
                };
                let serve = axum::serve(listener, router).with_graceful_shutdown(is_set(stopping));
                (runtime.spawn(serve.into_future()), format!("unix:{}", path.display()), Some(path.clone()))
            }
        };
        Ok(Self { runtime, stop, serving, place, socket })
    }

    /// Ends it.
    pub fn stop(self) {
        // Nobody listens where the listener has failed already.
        let _ = self.stop.send(true);
        let serving = self.serving;
        let _ = self.runtime.block_on(async { tokio::time::timeout(STOP_WAIT, serving).await });
        if let Some(path) = &self.socket {
            // Whoever finds it asks nobody, and goes on.
            let _ = fs::remove_file(path);
        }
        self.runtime.shutdown_timeout(STOP_WAIT);
    }
}

async fn is_set(mut flag: watch::Receiver<bool>) {
    // An error means that the listener was dropped, which ends it too.
    let _ = flag.wait_for(|is_set| *is_set).await;
}

/// A socket file for this user alone: bound under another name, closed to others, then put in its place.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "another guard answers there"));
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

/// Paths and methods, held against the page of the interface by a test.
pub const ROUTES: [(&str, &str); 8] = [
    ("POST", "/v1/check"),
    ("POST", "/v1/hooks/{agent}"),
    ("POST", "/v1/traces"),
    ("POST", "/v1/logs"),
    ("POST", "/v1/metrics"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
];

fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/check", post(ask))
        .route("/v1/hooks/{agent}", post(hear))
        .route("/v1/traces", exports(Some(Signal::Traces)))
        .route("/v1/logs", exports(Some(Signal::Logs)))
        .route("/v1/metrics", exports(None))
        .route("/livez", get(|| async { answer::text(StatusCode::OK, "ok\n") }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(any(answer::not_found))
        .layer(from_fn_with_state(Arc::clone(shared), gate))
        .with_state(Arc::clone(shared))
}

/// Who may ask, and the form of errors. Whoever asks here is an agent, or sends what agents do: health and metrics apart, all is for sources.
async fn gate(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<Peer>>().cloned();
    // Deadlines of a connection know by it whether a head or an answer is awaited.
    let _answering = peer.as_ref().map(|ConnectInfo(peer)| peer.answering());
    let asked = Asked::of(&request);
    // As of any process: they show nothing of anybody.
    let is_open = ["/livez", "/readyz", "/metrics"].contains(&request.uri().path());
    let who = match &peer {
        _ if !asked.names_one_host() => Err(answer::bad_request("a request has one header host").into()),
        Some(ConnectInfo(peer)) => shared.door.by_address(peer.ip, || peer.user(), &asked).map_err(access::unknown),
        None => shared.door.by_socket(&asked).map_err(access::unknown),
    };
    let response = match who {
        Err(refused) if !is_open => refused.into_response(),
        Err(_) => answer::in_form(next.run(request).await),
        Ok(who) => {
            request.extensions_mut().insert(who);
            answer::in_form(next.run(request).await)
        }
    };
    answer::as_problem(response)
}

async fn ask(
    State(shared): State<Arc<Shared>>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    check::respond((&shared.desk, &who), &headers, body).await
}

async fn hear(
    State(shared): State<Arc<Shared>>,
    PathOf(agent): PathOf<String>,
    Query(asked): Query<hooks::Asked>,
    Extension(who): Extension<Principal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    hooks::respond((&shared.desk, &who), (&agent, &asked), &headers, body).await
}

fn exports(signal: Option<Signal>) -> MethodRouter<Arc<Shared>> {
    let answer = async move |State(shared): State<Arc<Shared>>, who: Extension<Principal>, headers: HeaderMap, body: Body| {
        let at = (Arc::clone(&shared.desk), Arc::clone(&shared.exports), who.0);
        otlp::beside(at, signal, &headers, body).await
    };
    post(answer)
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    if shared.desk.is_fresh() {
        answer::text(StatusCode::OK, "ok\n")
    } else {
        answer::text(StatusCode::SERVICE_UNAVAILABLE, "no fresh verdicts: every call is let through\n")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer::with_type(StatusCode::OK, media, (shared.metrics)())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_its_user_alone_and_a_dead_one_is_replaced() {
        let dir = std::env::temp_dir().join(format!("lw-sidecar-{}", std::process::id()));
        let path = dir.join("deep/guard.sock");
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let _entered = runtime.enter();
        let first = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(bind(&path).is_ok());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no other name is left");
        fs::remove_dir_all(&dir).unwrap();
    }
}
