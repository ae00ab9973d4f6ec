//! What the gate asks of a request before a route answers it.

use crate::http::access::principal::Roles;

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody who reaches the port.
    Open,
    /// Whoever has a link, which the route reads: what may be done stands in it.
    Link,
    /// Who has one of these roles, for his tenants: what he sees and does is bound to them.
    Tenant(Roles),
    /// Who has one of these roles for all tenants: it is about the whole process.
    Process(Roles),
}

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

/// What the gate knows of a route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRule {
    pub(crate) access: Access,
    pub(crate) group: Group,
    /// What its answers are counted under.
    pub(crate) path: &'static str,
}
