//! The gate in front of every route: size of the head, requests per second, who may ask; counts what was answered.
//!
//! Loopback means: the peer is this host, no proxy stands in between, and the name the client used is one of this host. Without the last,
//! a page of the web could ask through the browser of whoever reads it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loopwarden_core::limits;
use loopwarden_log::clock::Stopwatch;

use crate::http::connection::Peer;
use crate::http::routes::{Access, Group};
use crate::http::shared::Shared;
use crate::http::token::Token;
use crate::http::{answer, routes};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// A token would help.
    Unknown,
    /// Other hosts are not served at all.
    Elsewhere,
    /// The request comes by way of a page of somebody else.
    Foreign,
}

/// Everything in front of a handler.
pub(super) async fn gate(State((shared, index)): State<(Arc<Shared>, usize)>, mut request: Request, next: Next) -> Response {
    let watch = Stopwatch::start();
    // The listener puts it into every request.
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>().cloned() else { return answer::busy() };
    let answering = peer.answering();
    let route = routes::at(index);
    let is_local = is_local(peer.ip, request.headers());
    let refused = if head_bytes(&request) > limits::HTTP_HEAD_BYTES_MAX {
        let message = format!("request line and headers may have {} bytes", limits::HTTP_HEAD_BYTES_MAX);
        Some(answer::error(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message))
    } else if !shared.rates.take(route.group, is_local) {
        Some(answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", "too many requests for this kind of route", 1))
    } else if !is_escaped(&request) {
        Some(answer::bad_request("the address holds a % that two hexadecimal digits do not follow; a % itself is written %25"))
    } else {
        check(route.access, is_local, request.method(), request.headers(), shared.token.as_ref()).err().map(refusal)
    };
    let mut response = if let Some(refusal) = refused {
        refusal
    } else {
        request.extensions_mut().insert(answering.clone());
        answer::in_form(next.run(request).await)
    };
    if route.group == Group::Checks {
        response = answer::as_problem(response);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if peer.is_crowded() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    shared.counts.note(index, response.status().as_u16(), watch.elapsed());
    response
}

/// Whether each `%` of the address begins an escape. Decoders take a broken one for the letters it is made of, and with them for
/// another name, of which nothing is known.
fn is_escaped(request: &Request) -> bool {
    let address = request.uri().path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    address.split('%').skip(1).all(|rest| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2)
}

/// Why a request is not served that came over TCP, or without an address over a socket file: who may open that is known to the
/// operating system, but a page of the web has no business there either.
pub(super) fn refused(ip: Option<IpAddr>, method: &Method, headers: &HeaderMap, token: Option<&Token>) -> Option<Response> {
    let refused = match ip {
        Some(ip) => check(Access::Api, is_local(ip, headers), method, headers, token),
        None if headers.contains_key(header::ORIGIN) => Err(Refusal::Foreign),
        None => Ok(()),
    };
    refused.err().map(refusal)
}

fn head_bytes(request: &Request) -> usize {
    // Each header costs its name, its value, and four bytes between and after.
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    headers + request.uri().path().len() + request.uri().query().map_or(0, str::len)
}

/// Whether the client sits on this host, as far as can be told.
fn is_local(ip: IpAddr, headers: &HeaderMap) -> bool {
    const BY_A_PROXY: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
    let is_proxied = BY_A_PROXY.iter().any(|name| headers.contains_key(HeaderName::from_static(name)));
    ip.is_loopback() && !is_proxied && headers.get(header::HOST).is_none_or(|host| host.to_str().is_ok_and(is_loopback_name))
}

/// `localhost:9464`, `127.0.0.1`, `[::1]:9464`.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn check(access: Access, is_local: bool, method: &Method, headers: &HeaderMap, token: Option<&Token>) -> Result<(), Refusal> {
    if access == Access::Open {
        return Ok(());
    }
    // A browser says which page a request comes from; only our own may change anything.
    let is_reading = method == Method::GET || method == Method::HEAD;
    if !is_reading && headers.get(header::ORIGIN).is_some_and(|origin| !is_own(origin, headers)) {
        return Err(Refusal::Foreign);
    }
    match (headers.get(header::AUTHORIZATION), token) {
        (Some(given), Some(token)) => secret_of(given).filter(|given| token.is(given)).map(drop).ok_or(Refusal::Unknown),
        _ if is_local => Ok(()),
        (None, Some(_)) => Err(Refusal::Unknown),
        (_, None) => Err(Refusal::Elsewhere),
    }
}

fn is_own(origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let origin = origin.to_str().unwrap_or_default();
    origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")).is_some_and(|origin| origin == host)
}

/// The secret in `Bearer …`, or the password in `Basic …`: browsers ask for the latter by themselves.
fn secret_of(given: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, rest) = given.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().as_bytes().to_vec());
    }
    let pair = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(rest.trim()).ok())??;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.get(colon + 1..).map(<[u8]>::to_vec)
}

fn refusal(refusal: Refusal) -> Response {
    match refusal {
        Refusal::Unknown => {
            let message =
                "this route needs the token of http.token_file: authorization: Bearer …, or any user with it as password";
            let mut response = answer::error(StatusCode::UNAUTHORIZED, "unauthorized", message);
            for challenge in ["Bearer realm=\"loopwarden\"", "Basic realm=\"loopwarden\""] {
                response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            response
        }
        Refusal::Elsewhere => answer::error(
            StatusCode::FORBIDDEN,
            "loopback_only",
            "this route answers on loopback only (as http://127.0.0.1:…, without a proxy); http.token_file opens it to other hosts",
        ),
        Refusal::Foreign => answer::error(StatusCode::FORBIDDEN, "foreign_origin", "the request comes from another page"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    fn asked(ip: &str, method: &Method, pairs: &[(&str, &str)], token: Option<&str>) -> Result<(), Refusal> {
        let (ip, headers, token) = (ip.parse().unwrap(), headers(pairs), token.map(|token| Token::new(token.to_owned())));
        check(Access::Admin, is_local(ip, &headers), method, &headers, token.as_ref())
    }

    #[test]
    fn loopback_needs_no_token_but_a_name_of_this_host_and_no_proxy() {
        for host in ["localhost", "LocalHost:9464", "127.0.0.1:9464", "[::1]:9464", "127.9.9.9"] {
            assert_eq!(asked("127.0.0.1", &Method::GET, &[("host", host)], None), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "", "[::2]"] {
            assert_eq!(asked("127.0.0.1", &Method::GET, &[("host", host)], None), Err(Refusal::Elsewhere), "{host}");
        }
        for proxy in ["forwarded", "x-forwarded-for", "x-real-ip"] {
            let pairs = [("host", "localhost"), (proxy, "10.0.0.1")];
            assert_eq!(asked("::1", &Method::GET, &pairs, None), Err(Refusal::Elsewhere), "{proxy}");
        }
    }

    #[test]
    fn another_host_needs_exactly_the_token() {
        let with = |given: &str| asked("10.0.0.1", &Method::GET, &[("authorization", given)], Some("s3cret"));
        assert_eq!(with("Bearer s3cret"), Ok(()));
        assert_eq!(with("bearer  s3cret "), Ok(()));
        // anybody:s3cret
        assert_eq!(with("Basic YW55Ym9keTpzM2NyZXQ="), Ok(()));
        for wrong in
            ["Bearer s3cre", "Bearer s3crets", "Bearer ", "Bearer", "s3cret", "Basic !!", "Basic czNjcmV0", "Digest s3cret", ""]
        {
            assert_eq!(with(wrong), Err(Refusal::Unknown), "{wrong}");
        }
        assert_eq!(asked("10.0.0.1", &Method::GET, &[], Some("s3cret")), Err(Refusal::Unknown));
        assert_eq!(asked("10.0.0.1", &Method::GET, &[("authorization", "Bearer ")], None), Err(Refusal::Elsewhere));
        assert_eq!(asked("10.0.0.1", &Method::GET, &[("authorization", "Bearer ")], Some("")), Err(Refusal::Unknown));
        assert_eq!(asked("127.0.0.1", &Method::GET, &[("authorization", "Bearer x")], Some("s3cret")), Err(Refusal::Unknown));
    }

    #[test]
    fn a_page_of_somebody_else_changes_nothing() {
        let put = |origin: &str| asked("127.0.0.1", &Method::PUT, &[("host", "localhost:9464"), ("origin", origin)], None);
        assert_eq!(put("http://localhost:9464"), Ok(()));
        for origin in ["http://evil.example", "null", "http://localhost:80", ""] {
            assert_eq!(put(origin), Err(Refusal::Foreign), "{origin}");
        }
    }

    #[test]
    fn open_routes_ask_nobody() {
        let check = check(Access::Open, false, &Method::GET, &headers(&[("host", "evil.example")]), None);
        assert_eq!(check, Ok(()));
    }
}
