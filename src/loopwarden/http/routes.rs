//! Every route with its access, in one table: the router is made of it, and a test walks it.

use crate::http::access::principal::{Role, Roles};

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the port.
    Open,
    /// Who has one of these roles, for his tenants: what he sees and does is bound to them.
    Tenant(Roles),
    /// Who has one of these roles for all tenants: it is about the whole process.
    Process(Roles),
}

/// Reports and asks.
const SOURCE: Access = Access::Tenant(Roles::of(&[Role::Source]));
/// Reports, or resets: what an event is decides which of them it needs.
const SENDER: Access = Access::Tenant(Roles::of(&[Role::Source, Role::Operator]));
/// Reads what is of his tenants.
const READER: Access = Access::Tenant(Roles::of(&[Role::Reader]));
/// Looks at what is of his tenants, as an operator must before he acts.
const LOOKER: Access = Access::Tenant(Roles::of(&[Role::Reader, Role::Operator]));
/// Looks at the process.
const OVERSEER: Access = Access::Process(Roles::of(&[Role::Reader, Role::Operator]));
/// Changes the process.
const OPERATOR: Access = Access::Process(Roles::of(&[Role::Operator]));

/// Routes that share a limit of requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Health: never refused, since a refusal would read as ill. As cheap to answer as to refuse.
    Probe,
    /// Metrics, version, and whatever does not exist.
    Open,
    /// Administration: asks lanes.
    Admin,
    Events,
    /// Commands and state out.
    Commands,
    /// Checks of agents, two for each call.
    Checks,
}

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
    pub(super) handler: Handler,
}

/// What answers a route.
#[derive(Debug, Clone, Copy)]
pub(super) enum Handler {
    Page,
    Livez,
    Readyz,
    Startupz,
    Metrics,
    Version,
    Config,
    Policy,
    LogFilter,
    SetLogFilter,
    Overview,
    Tasks,
    Task,
    Session,
    Swarm,
    Events,
    Traces,
    Logs,
    OtherMetrics,
    Export,
    Commands,
    State,
    Check,
    Hooks,
}

const fn route(method: &'static str, path: &'static str, access: Access, group: Group, handler: Handler) -> Route {
    Route { method, path, access, group, handler }
}

/// The table.
#[rustfmt::skip]
pub const ROUTES: [Route; 25] = [
    route("GET", "/", OVERSEER, Group::Admin, Handler::Page),
    route("GET", "/livez", Access::Open, Group::Probe, Handler::Livez),
    route("GET", "/readyz", Access::Open, Group::Probe, Handler::Readyz),
    route("GET", "/ready", Access::Open, Group::Probe, Handler::Readyz),
    route("GET", "/startupz", Access::Open, Group::Probe, Handler::Startupz),
    route("GET", "/metrics", Access::Open, Group::Open, Handler::Metrics),
    route("GET", "/version", Access::Open, Group::Open, Handler::Version),
    route("GET", "/config", OVERSEER, Group::Admin, Handler::Config),
    route("GET", "/policy", OVERSEER, Group::Admin, Handler::Policy),
    route("GET", "/log-level", OVERSEER, Group::Admin, Handler::LogFilter),
    route("PUT", "/log-level", OPERATOR, Group::Admin, Handler::SetLogFilter),
    route("GET", "/overview", OVERSEER, Group::Admin, Handler::Overview),
    route("GET", "/tasks", OVERSEER, Group::Admin, Handler::Tasks),
    route("GET", "/tasks/{stage}/{partition}", OVERSEER, Group::Admin, Handler::Task),
    route("GET", "/sessions/{id}", LOOKER, Group::Admin, Handler::Session),
    route("GET", "/swarms/{id}", LOOKER, Group::Admin, Handler::Swarm),
    route("POST", "/v1/events", SENDER, Group::Events, Handler::Events),
    route("POST", "/v1/traces", SOURCE, Group::Events, Handler::Traces),
    route("POST", "/v1/logs", SOURCE, Group::Events, Handler::Logs),
    route("POST", "/v1/metrics", SOURCE, Group::Events, Handler::OtherMetrics),
    route("GET", "/v1/events", READER, Group::Commands, Handler::Export),
    route("GET", "/v1/commands", READER, Group::Commands, Handler::Commands),
    route("GET", "/v1/state/{session_id}", READER, Group::Commands, Handler::State),
    route("POST", "/v1/check", SOURCE, Group::Checks, Handler::Check),
    route("POST", "/v1/hooks/{agent}", SOURCE, Group::Checks, Handler::Hooks),
];

/// Stands for every path that is not in the table.
pub(super) const UNKNOWN: Route = route("GET", "other", Access::Open, Group::Open, Handler::Page);

/// A route by its place in the table; beyond it, [`UNKNOWN`].
pub(super) fn at(index: usize) -> &'static Route {
    ROUTES.get(index).unwrap_or(&UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_shows_ids_is_never_open() {
        for route in ROUTES.iter().filter(|route| route.access == Access::Open) {
            assert!(matches!(route.group, Group::Probe | Group::Open), "{}", route.path);
            assert!(!route.path.contains('{'), "{}", route.path);
            assert_eq!(route.method, "GET");
        }
    }

    #[test]
    fn no_method_and_path_stands_twice() {
        let mut names: Vec<(&str, &str)> = ROUTES.iter().map(|route| (route.path, route.method)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROUTES.len());
    }
}
