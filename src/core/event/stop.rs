//! Acts of a person who stops agents, or lets them go on: `stop` and `release`.

use std::borrow::Cow;

use crate::event::{EventTime, Reason, RecordMeta, Rejected, field};
use crate::event::{part::AgentPart, wire::Wire};
use crate::limits::{FUTURE_MS_MAX, STOP_MS_MAX, STOP_REASON_CHARS_MAX};

/// Label of an event that names who acts; commands carry it.
pub const ACTOR: &str = "actor";
/// Record key of what is about everybody: no name, since none is needed.
const ALL_KEY: &str = "*";

/// Whom a stop binds. Each but the last within its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopScope {
    /// One session, with all of its agents.
    Session,
    /// Agents of this id, in whichever session.
    Agent,
    /// Every agent of a tree, its root among them.
    Tree,
    /// Every session of a swarm.
    Swarm,
    /// Every session of the tenant.
    Tenant,
    /// Every session of every tenant.
    All,
}

impl StopScope {
    /// Every scope, the narrowest first.
    pub const LIST: [Self; 6] = [Self::Session, Self::Agent, Self::Tree, Self::Swarm, Self::Tenant, Self::All];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Tree => "tree",
            Self::Swarm => "swarm",
            Self::Tenant => "tenant",
            Self::All => "all",
        }
    }

    /// The scope that a word on the wire stands for.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::LIST.into_iter().find(|scope| scope.as_str() == name)
    }

    /// Key of the records about it, by its name within the scope and by its tenant: all of them go to one partition.
    #[must_use]
    pub const fn record_key<'a>(self, tenant: &'a str, name: &'a str) -> &'a str {
        match self {
            Self::Session | Self::Agent | Self::Tree | Self::Swarm => name,
            Self::Tenant => tenant,
            Self::All => ALL_KEY,
        }
    }
}

/// Agents are stopped from now on, until a time.
#[derive(Debug, Clone)]
pub struct Stop<'a> {
    pub scope: StopScope,
    /// It ends by itself then: at most `STOP_MS_MAX` after the record.
    pub until: EventTime,
    /// Why, for people and for the agents.
    pub reason: Cow<'a, str>,
    /// Whoever was stopped and can ask no guard any more goes on being stopped.
    pub fails_closed: bool,
}

/// A stop of this scope ends.
#[derive(Debug, Clone)]
pub struct Release<'a> {
    pub scope: StopScope,
    /// Why, for people; a release needs no reason.
    pub reason: Option<Cow<'a, str>>,
}

/// The scope of an event of one of the two kinds.
pub(super) fn scope(wire: &Wire<'_>) -> Result<StopScope, Rejected> {
    field::required(field::choice(wire.scope, "scope", StopScope::from_name)?, "scope")
}

/// What every event has, of one that may be about no session: the key of its records.
pub(super) fn session_id<'a>(
    scope: StopScope,
    session_id: Option<Cow<'a, str>>,
    agent: &AgentPart<'a>,
    swarm_id: Option<&Cow<'a, str>>,
    tenant: Option<&Cow<'a, str>>,
) -> Result<Cow<'a, str>, Rejected> {
    match scope {
        StopScope::Session => field::required(session_id, "session_id"),
        StopScope::Agent => field::required(agent.id.clone(), "agent"),
        StopScope::Tree => field::required(agent.root_id.clone(), "agent/root_id"),
        StopScope::Swarm => field::required(swarm_id.cloned(), "swarm_id"),
        StopScope::Tenant => field::required(tenant.cloned(), "tenant"),
        // Whoever names a tenant means less than all.
        StopScope::All if tenant.is_some() => Err(Rejected::at(Reason::BadValue, "tenant")),
        StopScope::All => Ok(Cow::Borrowed(ALL_KEY)),
    }
}

/// Reads the fields of a stop, each held to its bound.
pub(super) fn stop<'a>(wire: &Wire<'a>, scope: StopScope, record: &RecordMeta<'_>) -> Result<Stop<'a>, Rejected> {
    let until = field::required(field::time(wire.until, "until")?, "until")?;
    if until > record.timestamp.plus_ms(STOP_MS_MAX + FUTURE_MS_MAX) {
        return Err(Rejected::at(Reason::BadValue, "until"));
    }
    let fails_closed = field::choice(wire.fail, "fail", |word| match word {
        "open" => Some(false),
        "closed" => Some(true),
        _ => None,
    })?;
    Ok(Stop { scope, until, reason: field::required(reason(wire)?, "reason")?, fails_closed: fails_closed.unwrap_or_default() })
}

/// Reads the fields of a release, each held to its bound.
pub(super) fn release<'a>(wire: &Wire<'a>, scope: StopScope) -> Result<Release<'a>, Rejected> {
    Ok(Release { scope, reason: reason(wire)? })
}

/// One line: people read it in terminals, and agents as a statement.
pub(super) fn reason<'a>(wire: &Wire<'a>) -> Result<Option<Cow<'a, str>>, Rejected> {
    let reason = field::bounded_text(wire.reason, "reason", STOP_REASON_CHARS_MAX)?;
    match &reason {
        Some(text) if text.trim().is_empty() || crate::event::json::has_control(text) => {
            Err(Rejected::at(Reason::BadValue, "reason"))
        }
        _ => Ok(reason),
    }
}
