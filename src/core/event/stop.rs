//! Acts of a person who stops agents, or lets them go on: `stop` and `release`.

use std::borrow::Cow;

use crate::event::{EventTime, Reason, RecordMeta, Rejected, field};
use crate::event::{part::AgentPart, wire::Wire};
use crate::limits::{FUTURE_MS_MAX, STOP_MS_MAX, STOP_REASON_CHARS_MAX};
use crate::whom::{ALL_KEY, Kind};

/// Label of an event that names who acts; commands carry it.
pub const ACTOR: &str = "actor";

/// How far the word of whoever acts reaches. In order: a wider one ends what a narrower one has placed, and never the other way around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Reach {
    /// An operator of single tenants; `tenant` on the wire.
    Tenant,
    /// An operator of all tenants, and whoever writes where senders have no names.
    #[default]
    All,
}

/// Agents are stopped from now on, until a time.
#[derive(Debug, Clone)]
pub struct Stop<'a> {
    /// By what they are named; never a label.
    pub scope: Kind,
    /// It ends by itself then: at most `STOP_MS_MAX` after the record.
    pub until: EventTime,
    /// Why, for people and for the agents.
    pub reason: Cow<'a, str>,
    /// Whoever was stopped and can ask no guard any more goes on being stopped.
    pub fails_closed: bool,
    /// Of whoever stops.
    pub reach: Reach,
}

/// A stop of this scope ends.
#[derive(Debug, Clone)]
pub struct Release<'a> {
    /// By what they are named; never a label.
    pub scope: Kind,
    /// Why, for people; a release needs no reason.
    pub reason: Option<Cow<'a, str>>,
    /// Of whoever releases.
    pub reach: Reach,
}

/// The scope of an event of one of the two kinds.
pub(super) fn scope(wire: &Wire<'_>) -> Result<Kind, Rejected> {
    field::required(field::choice(wire.scope, "scope", stopped)?, "scope")
}

fn stopped(word: &str) -> Option<Kind> {
    Kind::from_name(word).filter(|kind| kind.can_stop())
}

/// What every event has, of one that may be about no session: the key of its records.
#[expect(clippy::match_wildcard_for_single_variants, reason = "operators stop by no other kind, however many there are")]
pub(super) fn session_id<'a>(
    scope: Kind,
    session_id: Option<Cow<'a, str>>,
    agent: &AgentPart<'a>,
    swarm_id: Option<&Cow<'a, str>>,
    tenant: Option<&Cow<'a, str>>,
) -> Result<Cow<'a, str>, Rejected> {
    match scope {
        Kind::Session => field::required(session_id, "session_id"),
        Kind::Agent => field::required(agent.id.clone(), "agent"),
        Kind::Tree => field::required(agent.root_id.clone(), "agent/root_id"),
        Kind::Swarm => field::required(swarm_id.cloned(), "swarm_id"),
        Kind::Tenant => field::required(tenant.cloned(), "tenant"),
        // Whoever names a tenant means less than all.
        Kind::All if tenant.is_some() => Err(Rejected::at(Reason::BadValue, "tenant")),
        Kind::All => Ok(Cow::Borrowed(ALL_KEY)),
        // Operators stop by no other kind.
        _ => Err(Rejected::at(Reason::BadValue, "scope")),
    }
}

/// Reads the fields of a stop, each held to its bound.
pub(super) fn stop<'a>(wire: &Wire<'a>, scope: Kind, record: &RecordMeta<'_>) -> Result<Stop<'a>, Rejected> {
    let until = field::required(field::time(wire.until, "until")?, "until")?;
    if until > record.timestamp.plus_ms(STOP_MS_MAX + FUTURE_MS_MAX) {
        return Err(Rejected::at(Reason::BadValue, "until"));
    }
    let fails_closed = field::choice(wire.fail, "fail", |word| match word {
        "open" => Some(false),
        "closed" => Some(true),
        _ => None,
    })?;
    let (reason, fails_closed) = (field::required(reason(wire)?, "reason")?, fails_closed.unwrap_or_default());
    Ok(Stop { scope, until, reason, fails_closed, reach: reach(wire)? })
}

/// Reads the fields of a release, each held to its bound.
pub(super) fn release<'a>(wire: &Wire<'a>, scope: Kind) -> Result<Release<'a>, Rejected> {
    Ok(Release { scope, reason: reason(wire)?, reach: reach(wire)? })
}

fn reach(wire: &Wire<'_>) -> Result<Reach, Rejected> {
    let reach = field::choice(wire.reach, "reach", |word| match word {
        "tenant" => Some(Reach::Tenant),
        "all" => Some(Reach::All),
        _ => None,
    })?;
    Ok(reach.unwrap_or_default())
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
