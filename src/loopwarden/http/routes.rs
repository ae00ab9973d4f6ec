//! Every route in one table: who serves it, who may ask, whose limit counts, and what answers. Both listeners are made of it, and tests walk it.

use std::sync::Arc;

use axum::routing::{MethodRouter, any, delete, get, post, put};
use axum::{Router, middleware::from_fn_with_state};
use loopwarden_sources::otlp::Signal;

use crate::http::access::principal::{Role, Roles};
pub use crate::http::access::rule::{Access, Group};
use crate::http::intake::{answers, events, export, hooks, links, otlp, stops};
use crate::http::listener::metrics::OTHER;
use crate::http::shared::{Process, Shared, Sidecar};
use crate::http::views::{admin, commands, page, pages, sessions, state};
use crate::http::{answer, check};
use crate::{http::access::gate::gate, http::access::rule::RouteRule};

/// Reports and asks.
const SOURCE: Access = Access::Tenant(Roles::of(&[Role::Source]));
/// Reports, or resets: what an event is decides which of them it needs.
const SENDER: Access = Access::Tenant(Roles::of(&[Role::Source, Role::Operator]));
/// Stops and releases agents of his tenants, and answers commands about them.
const ACTOR: Access = Access::Tenant(Roles::of(&[Role::Operator]));
/// Reads what is of his tenants.
const READER: Access = Access::Tenant(Roles::of(&[Role::Reader]));
/// Looks at what is of his tenants, as an operator must before he acts.
const LOOKER: Access = Access::Tenant(Roles::of(&[Role::Reader, Role::Operator]));
/// Looks at the process.
const OVERSEER: Access = Access::Process(Roles::of(&[Role::Reader, Role::Operator]));
/// Changes the process.
const OPERATOR: Access = Access::Process(Roles::of(&[Role::Operator]));

#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// Method; `GET` answers `HEAD` too.
    pub method: &'static str,
    /// Path with its parameters in braces.
    pub path: &'static str,
    /// Who may ask.
    pub access: Access,
    /// Whose limit counts.
    pub group: Group,
    served: Served,
}

/// The commands that serve a route, and what answers it there.
#[derive(Debug, Clone, Copy)]
enum Served {
    Run(fn() -> MethodRouter<Arc<Process>>),
    Guard(fn() -> MethodRouter<Arc<Sidecar>>),
    Both(fn() -> MethodRouter<Arc<Shared>>),
}
use Served::{Both, Guard, Run};

impl Route {
    /// Whether a process serves it.
    pub const fn is_of_process(&self) -> bool {
        matches!(self.served, Run(_) | Both(_))
    }

    /// Whether a guard beside an agent serves it.
    pub const fn is_of_guard(&self) -> bool {
        matches!(self.served, Guard(_) | Both(_))
    }
}

const fn route(method: &'static str, path: &'static str, access: Access, group: Group, served: Served) -> Route {
    Route { method, path, access, group, served }
}

/// The table.
#[rustfmt::skip]
pub const ROUTES: [Route; 41] = [
    route("GET", "/", OVERSEER, Group::Admin, Run(|| get(page::page))),
    route("GET", "/livez", Access::Open, Group::Probe, Run(|| get(admin::livez))),
    route("GET", "/readyz", Access::Open, Group::Probe, Run(|| get(admin::readyz))),
    route("GET", "/ready", Access::Open, Group::Probe, Run(|| get(admin::readyz))),
    route("GET", "/startupz", Access::Open, Group::Probe, Run(|| get(admin::startupz))),
    route("GET", "/metrics", Access::Open, Group::Open, Run(|| get(admin::metrics))),
    route("GET", "/version", Access::Open, Group::Open, Run(|| get(admin::version))),
    route("GET", "/docs/", Access::Open, Group::Open, Run(|| get(pages::list))),
    route("GET", "/docs/{file}", Access::Open, Group::Open, Run(|| get(pages::one))),
    route("GET", "/docs/errors/{file}", Access::Open, Group::Open, Run(|| get(pages::error))),
    route("GET", "/config", OVERSEER, Group::Admin, Run(|| get(admin::config))),
    route("GET", "/policy", OVERSEER, Group::Admin, Run(|| get(admin::policy))),
    route("GET", "/log-level", OVERSEER, Group::Admin, Run(|| get(admin::log_filter))),
    route("PUT", "/log-level", OPERATOR, Group::Admin, Run(|| put(admin::set_log_filter))),
    route("GET", "/overview", OVERSEER, Group::Admin, Run(|| get(admin::overview))),
    route("GET", "/tasks", OVERSEER, Group::Admin, Run(|| get(admin::tasks))),
    route("GET", "/tasks/{stage}/{partition}", OVERSEER, Group::Admin, Run(|| get(admin::task))),
    route("GET", "/sessions", LOOKER, Group::Admin, Run(|| get(sessions::get))),
    route("GET", "/sessions/{id}", LOOKER, Group::Admin, Run(|| get(state::session))),
    route("GET", "/swarms/{id}", LOOKER, Group::Admin, Run(|| get(state::swarm))),
    route("POST", "/v1/events", SENDER, Group::Events, Run(|| post(events::post))),
    route("POST", "/v1/traces", SOURCE, Group::Events, Run(|| otlp::to_log(Some(Signal::Traces)))),
    route("POST", "/v1/logs", SOURCE, Group::Events, Run(|| otlp::to_log(Some(Signal::Logs)))),
    route("POST", "/v1/metrics", SOURCE, Group::Events, Run(|| otlp::to_log(None))),
    route("GET", "/v1/events", READER, Group::Commands, Run(|| get(export::get))),
    route("GET", "/v1/stops", LOOKER, Group::Admin, Run(|| get(stops::get))),
    route("POST", "/v1/stops", ACTOR, Group::Admin, Run(|| post(stops::post))),
    route("DELETE", "/v1/stops", ACTOR, Group::Admin, Run(|| delete(stops::delete))),
    route("POST", "/v1/answers", ACTOR, Group::Admin, Run(|| post(answers::post))),
    route("GET", "/a/{token}", Access::Link, Group::Open, Run(|| get(links::show))),
    route("POST", "/a/{token}", Access::Link, Group::Open, Run(|| post(links::act))),
    route("GET", "/v1/commands", READER, Group::Commands, Run(|| get(commands::get))),
    route("GET", "/v1/state/{session_id}", READER, Group::Commands, Run(|| get(state::rows))),
    route("POST", "/v1/check", SOURCE, Group::Checks, Both(|| post(check::post))),
    route("POST", "/v1/hooks/{agent}", SOURCE, Group::Checks, Both(|| post(hooks::post))),
    route("GET", "/livez", Access::Open, Group::Probe, Guard(|| get(admin::guard_livez))),
    route("GET", "/readyz", Access::Open, Group::Probe, Guard(|| get(admin::guard_readyz))),
    route("GET", "/metrics", Access::Open, Group::Open, Guard(|| get(admin::guard_metrics))),
    route("POST", "/v1/traces", SOURCE, Group::Events, Guard(|| otlp::to_queue(Some(Signal::Traces)))),
    route("POST", "/v1/logs", SOURCE, Group::Events, Guard(|| otlp::to_queue(Some(Signal::Logs)))),
    route("POST", "/v1/metrics", SOURCE, Group::Events, Guard(|| otlp::to_queue(None))),
];

/// What a process serves.
pub(super) fn of_process(process: &Arc<Process>) -> Router {
    router(&process.shared, |served| match served {
        Run(handler) => Some(handler().with_state(Arc::clone(process))),
        Both(handler) => Some(handler().with_state(Arc::clone(&process.shared))),
        Guard(_) => None,
    })
}

/// What a guard beside an agent serves.
pub(super) fn of_guard(sidecar: &Arc<Sidecar>) -> Router {
    router(&sidecar.shared, |served| match served {
        Guard(handler) => Some(handler().with_state(Arc::clone(sidecar))),
        Both(handler) => Some(handler().with_state(Arc::clone(&sidecar.shared))),
        Run(_) => None,
    })
}

/// Each route that is served, and whatever is none, behind the gate.
fn router(shared: &Arc<Shared>, handler: impl Fn(Served) -> Option<MethodRouter>) -> Router {
    let behind_gate = |handler: MethodRouter, rule: RouteRule| -> MethodRouter {
        handler.layer(from_fn_with_state((Arc::clone(shared), rule), gate))
    };
    let mut router = Router::new();
    for Route { path, access, group, served, .. } in ROUTES {
        if let Some(handler) = handler(served) {
            router = router.route(path, behind_gate(handler, RouteRule { access, group, path }));
        }
    }
    let unknown = RouteRule { access: Access::Open, group: Group::Open, path: OTHER };
    router.fallback_service(behind_gate(any(answer::not_found), unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_shows_ids_is_never_open() {
        for route in ROUTES.iter().filter(|route| route.access == Access::Open) {
            assert!(matches!(route.group, Group::Probe | Group::Open), "{}", route.path);
            // Pages are the same for everybody.
            assert!(!route.path.contains('{') || route.path.starts_with("/docs/"), "{}", route.path);
            assert_eq!(route.method, "GET");
        }
    }

    #[test]
    fn nobody_serves_a_method_and_path_twice() {
        for is_served in [Route::is_of_process, Route::is_of_guard] {
            let served = ROUTES.iter().filter(|route| is_served(route));
            let mut names: Vec<(&str, &str)> = served.map(|route| (route.path, route.method)).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}
