//! The gate in front of every route: size of the head, who asks, requests per second, what he may; counts what was answered.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::{http::uri::PathAndQuery, middleware::Next};
use loopwarden_core::limits;
use loopwarden_log::clock::Stopwatch;

use crate::http::access::door::{Asked, Stranger};
use crate::http::access::principal::{Principal, Roles};
use crate::http::access::rule::{Access, Group, RouteRule};
use crate::{
    http::access::principal::Purse, http::answer, http::answer::Refusal, http::listener::connection::Peer, http::shared::Shared,
};

/// Everything in front of a handler.
pub(crate) async fn gate(State((shared, rule)): State<(Arc<Shared>, RouteRule)>, mut request: Request, next: Next) -> Response {
    let watch = Stopwatch::start();
    // The listener puts it into every request.
    let Some(ConnectInfo(peer)) = request.extensions().get::<ConnectInfo<Peer>>().cloned() else { return answer::busy() };
    let answering = peer.answering();
    let mut response = match admitted(&shared, rule, &peer, &request) {
        Err(refusal) => refusal.into_response(),
        Ok(principal) => {
            request.extensions_mut().insert(answering.clone());
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            answer::in_form(next.run(request).await)
        }
    };
    if shared.is_for_agents || rule.group == Group::Checks {
        response = answer::as_problem(response);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if peer.is_crowded() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    shared.counts.note(rule.path, response.status().as_u16(), watch.elapsed());
    response
}

/// Who asks, where a route needs to know, and may have what he asks for; else the answer.
fn admitted(shared: &Shared, rule: RouteRule, peer: &Peer, request: &Request) -> Result<Option<Principal>, Refusal> {
    if head_bytes(request) > limits::HTTP_HEAD_BYTES_MAX {
        let message = format!("request line and headers may have {} bytes", limits::HTTP_HEAD_BYTES_MAX);
        return Err(answer::error(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message).into());
    }
    let asked = Asked::of(request);
    if !asked.names_one_host() {
        return Err(answer::bad_request("a request has one header host").into());
    }
    // Health is answered to anybody, however many ask: who it is does not matter.
    if rule.group == Group::Probe {
        return Ok(None);
    }
    let who =
        if peer.is_by_file { shared.door.by_socket(&asked) } else { shared.door.by_address(peer.ip, || peer.user(), &asked) };
    let purse = who.as_ref().map_or(Purse::Stranger(peer.ip), |principal| principal.purse);
    if !shared.rates.take(rule.group, purse) {
        let message = "too many requests for this kind of route";
        return Err(answer::later(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message, 1).into());
    }
    if !is_escaped(request) {
        let message = "the address holds a % that two hexadecimal digits do not follow; a % itself is written %25";
        return Err(answer::bad_request(message).into());
    }
    let (roles, is_of_all) = match rule.access {
        Access::Open | Access::Link => return Ok(who.ok()),
        Access::Tenant(roles) => (roles, false),
        Access::Process(roles) => (roles, true),
    };
    let who = with_role(who.map_err(unknown)?, roles)?;
    if is_of_all && !who.tenants.are_all() { Err(of_all_tenants(&who)) } else { Ok(Some(who)) }
}

/// Whether each `%` of the address begins an escape. Decoders take a broken one for the letters it is made of, and with them for
/// another name, of which nothing is known.
fn is_escaped(request: &Request) -> bool {
    let address = request.uri().path_and_query().map(PathAndQuery::as_str).unwrap_or_default();
    address.split('%').skip(1).all(|rest| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2)
}

fn head_bytes(request: &Request) -> usize {
    // Each header costs its name, its value, and four bytes between and after.
    let headers: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    headers + request.uri().path().len() + request.uri().query().map_or(0, str::len)
}

/// The answer to somebody whom nobody knows.
fn unknown(stranger: Stranger) -> Refusal {
    let forbidden = |word, message| Refusal::from(answer::error(StatusCode::FORBIDDEN, word, message));
    match stranger {
        Stranger::WithoutToken => {
            let message = "this route needs a token, of http.token_file or [[token]]: authorization: Bearer …, or any user with it as password";
            let mut response = answer::error(StatusCode::UNAUTHORIZED, "unauthorized", message);
            for challenge in ["Bearer realm=\"loopwarden\"", "Basic realm=\"loopwarden\""] {
                response.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            response.into()
        }
        Stranger::Elsewhere => forbidden(
            "loopback_only",
            "this route answers on loopback only (as http://127.0.0.1:…, without a proxy); [[token]] or http.token_file opens it to other hosts",
        ),
        Stranger::OtherUser => forbidden(
            "other_user",
            "this route answers to the user that loopwarden runs as, and to root; give others a token: [[token]] or http.token_file",
        ),
        Stranger::NoToken => forbidden(
            "no_token",
            "http.local is \"token\", so that everybody needs one, and there is none; add [[token]] or http.token_file",
        ),
        Stranger::OtherPage => forbidden("foreign_origin", "the request comes from another page"),
    }
}

/// Somebody who has one of these roles.
fn with_role(who: Principal, roles: Roles) -> Result<Principal, Refusal> {
    if who.roles.meet(roles) {
        return Ok(who);
    }
    let message = format!(
        "this route needs the role {}, which the token {:?} has not; its table [[token]] names roles",
        roles.words(),
        who.name
    );
    Err(answer::error(StatusCode::FORBIDDEN, "role_missing", message).into())
}

fn of_all_tenants(who: &Principal) -> Refusal {
    let message = format!("this route is about the whole process, and the token {:?} is for some tenants only", who.name);
    answer::error(StatusCode::FORBIDDEN, "all_tenants_only", message).into()
}

/// The answer to who names a tenant that is not his.
pub(crate) fn foreign_tenant(who: &Principal) -> Refusal {
    let message = format!("the token {:?} is for other tenants; name one of its own: ?tenant=…", who.name);
    answer::error(StatusCode::FORBIDDEN, "foreign_tenant", message).into()
}
