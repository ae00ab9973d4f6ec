//! The proxy between an MCP client and a server over Streamable HTTP. What is asked and told is the crate `loopwarden_mcp`'s.
//!
//! Bytes pass as they come. A call's request is read before, its answer as far as it is a message or an event; both are bounded.

mod body;
mod events;
mod sessions;
#[cfg(test)]
mod tests;

use std::{io, io::Write as _, net::SocketAddr, sync::Arc, time::Duration};

use hyper::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use loopwarden_mcp::{Calls, Options, with};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::{body::Passing, events::Events, sessions::Sessions};

/// After how many sessions that were forgotten it is said again.
const FORGOTTEN_SAID: u64 = 1_000;
const SESSION: &str = "mcp-session-id";
/// Connections of clients at a time.
const CONNECTIONS_MAX: usize = 512;
/// Before another try where the process has no file for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Proxy {
    authority: String,
    options: Options,
    wait: Duration,
    /// For requests without a session.
    shared: Arc<Calls>,
    sessions: Sessions,
}

/// Serves until the process ends. `url` is the server's: requests go to its host, with the path that the client names.
///
/// # Errors
/// The URL is not `http://HOST:PORT/…`, the address is not on this host, or it cannot be listened at.
pub fn run(url: &str, listen: SocketAddr, options: &Options) -> io::Result<()> {
    let authority = authority(url).map_err(io::Error::other)?;
    if !listen.ip().is_loopback() {
        return Err(io::Error::other(format!(
            "{listen} can be reached from other hosts; --listen takes 127.0.0.1:PORT or [::1]:PORT"
        )));
    }
    let proxy = Arc::new(Proxy::new(authority, options, loopwarden_mcp::wait()));
    // Threads that wait for the guard are replaced meanwhile.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        serve(&listener, &proxy).await;
        Ok(())
    })
}

/// Never ends: without room for a connection, or without a file for it, clients wait.
async fn serve(listener: &TcpListener, proxy: &Arc<Proxy>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { continue };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let proxy = Arc::clone(proxy);
        tokio::spawn(async move {
            let _slot = slot;
            let service = service_fn(|request| {
                let proxy = Arc::clone(&proxy);
                async move { Ok::<_, std::convert::Infallible>(proxy.answer(request).await) }
            });
            // A client that goes away is no failure of the proxy.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn authority(url: &str) -> Result<String, String> {
    let uri: Uri = url.parse().map_err(|error| format!("--url {url:?}: {error}"))?;
    match (uri.scheme_str(), uri.host(), uri.port_u16()) {
        (Some("http"), Some(host), port) => Ok(format!("{host}:{}", port.unwrap_or(80))),
        (Some("https"), ..) => {
            Err(format!("--url {url:?}: https needs a local program that ends TLS, such as stunnel; give its http:// URL"))
        }
        _ => Err(format!("--url {url:?} is not http://HOST:PORT/PATH")),
    }
}

impl Proxy {
    fn new(authority: String, options: &Options, wait: Duration) -> Self {
        let shared = Arc::new(loopwarden_mcp::calls(options, wait));
        Self { authority, options: options.clone(), wait, shared, sessions: Sessions::default() }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Passing> {
        if !is_local(request.headers()) {
            return error(StatusCode::FORBIDDEN, "the request comes from a page of another host");
        }
        let session = request.headers().get(SESSION).cloned();
        let calls = self.calls(session.as_ref());
        let (mut head, body) = request.into_parts();
        let ends = head.method == Method::DELETE;
        let body = if head.method == Method::POST {
            Passing::read(body).await
        } else {
            Passing { rest: Some(body), ..Passing::default() }
        };
        // Batches went out of the protocol with 2025-06-18; they pass.
        if let Some(bytes) = body.bytes().filter(|bytes| bytes.trim_ascii_start().starts_with(b"{"))
            && let Some(answers) = tokio::task::block_in_place(|| calls.asked(bytes))
        {
            return json(StatusCode::OK, answers.reply.trim_end().to_owned());
        }
        head.version = Version::HTTP_11;
        to_next(&mut head.headers);
        // What is compressed cannot be read.
        head.headers.remove(ACCEPT_ENCODING);
        if let Ok(host) = HeaderValue::from_str(&self.authority) {
            head.headers.insert(HOST, host);
        }
        match self.sent(Request::from_parts(head, body)).await {
            Ok(response) => {
                match &session {
                    Some(id) if ends => self.sessions.end(id.as_bytes()),
                    Some(id) if response.status().is_success() => self.keep(id, &calls),
                    _ => {}
                }
                returned(response, calls).await
            }
            Err(why) => error(StatusCode::BAD_GATEWAY, &format!("the MCP server at {} cannot be reached: {why}", self.authority)),
        }
    }

    async fn sent(&self, request: Request<Passing>) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // Its failure is that of the request or of the body.
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    }

    fn calls(&self, session: Option<&HeaderValue>) -> Arc<Calls> {
        let new = || loopwarden_mcp::calls(&self.options, self.wait);
        session.map_or_else(|| Arc::clone(&self.shared), |id| self.sessions.of(id.as_bytes(), new))
    }

    fn keep(&self, session: &HeaderValue, calls: &Arc<Calls>) {
        if let Some(forgotten) = self.sessions.keep(session.as_bytes(), calls)
            && forgotten % FORGOTTEN_SAID == 1
        {
            let _ = writeln!(
                io::stderr(),
                "loopwarden: there are too many sessions; those that were idle for longest are forgotten, {forgotten} so far"
            );
        }
    }
}

/// The server's answer, with what the guard says about a result in it.
async fn returned(response: Response<Incoming>, calls: Arc<Calls>) -> Response<Passing> {
    let (mut head, body) = response.into_parts();
    to_next(&mut head.headers);
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_plain = !head.headers.contains_key(CONTENT_ENCODING);
    let body = match kind.as_str() {
        "application/json" if is_plain => {
            let mut body = Passing::read(body).await;
            let additions = body.bytes().map(|bytes| tokio::task::block_in_place(|| calls.answered(bytes))).unwrap_or_default();
            if !additions.is_empty() {
                body = Passing::whole(with(&body.first.unwrap_or_default(), additions));
                head.headers.remove(CONTENT_LENGTH);
            }
            body
        }
        "text/event-stream" if is_plain => {
            head.headers.remove(CONTENT_LENGTH);
            Passing { rest: Some(body), events: Some((Events::default(), calls)), ..Passing::default() }
        }
        _ => Passing { rest: Some(body), ..Passing::default() },
    };
    Response::from_parts(head, body)
}

/// Takes out what is said to the next hop alone.
fn to_next(headers: &mut HeaderMap) {
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
}

/// Whether a program of this host asks, and no page of another one through a browser here.
fn is_local(headers: &HeaderMap) -> bool {
    let is_loopback = |uri: &str| {
        let host = uri.parse::<Uri>().ok().and_then(|uri| Some(uri.host()?.to_owned()));
        host.is_some_and(|host| matches!(host.as_str(), "localhost" | "127.0.0.1" | "[::1]"))
    };
    [HOST, ORIGIN].iter().all(|name| headers.get_all(name).iter().all(|value| value.to_str().is_ok_and(is_loopback)))
}

fn json(status: StatusCode, text: String) -> Response<Passing> {
    let mut response = Response::new(Passing::whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(status: StatusCode, message: &str) -> Response<Passing> {
    let error = serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": message } });
    json(status, error.to_string())
}
