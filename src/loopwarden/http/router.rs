//! The router: each route of the table behind the gate, and the function that answers it.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, any, get, post, put};
use loopwarden_ingest::otlp::Signal;

use crate::http::access::gate as access;
use crate::http::intake::{events, export, hooks, otlp};
use crate::http::routes::{Handler, ROUTES};
use crate::http::shared::Shared;
use crate::http::views::{admin, commands, page, state};
use crate::http::{answer, check};

/// The router of the table, each route behind the gate.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let gate = |index: usize| from_fn_with_state((Arc::clone(shared), index), access::gate);
    let mut router = Router::new();
    for (index, route) in ROUTES.iter().enumerate() {
        router = router.route(route.path, handler(route.handler).layer(gate(index)));
    }
    let unknown = any(answer::not_found).layer(gate(ROUTES.len()));
    router.fallback_service(unknown.with_state(())).with_state(Arc::clone(shared))
}

fn handler(handler: Handler) -> MethodRouter<Arc<Shared>> {
    match handler {
        Handler::Page => get(page::page),
        Handler::Livez => get(admin::livez),
        Handler::Readyz => get(admin::readyz),
        Handler::Startupz => get(admin::startupz),
        Handler::Metrics => get(admin::metrics),
        Handler::Version => get(admin::version),
        Handler::Config => get(admin::config),
        Handler::Policy => get(admin::policy),
        Handler::LogFilter => get(admin::log_filter),
        Handler::SetLogFilter => put(admin::set_log_filter),
        Handler::Overview => get(admin::overview),
        Handler::Tasks => get(admin::tasks),
        Handler::Task => get(admin::task),
        Handler::Session => get(state::session),
        Handler::Swarm => get(state::swarm),
        Handler::Events => post(events::post),
        Handler::Traces => otlp::exports(Some(Signal::Traces)),
        Handler::Logs => otlp::exports(Some(Signal::Logs)),
        Handler::OtherMetrics => otlp::exports(None),
        Handler::Export => get(export::get),
        Handler::Commands => get(commands::get),
        Handler::State => get(state::rows),
        Handler::Check => post(check::post),
        Handler::Hooks => post(hooks::post),
    }
}
