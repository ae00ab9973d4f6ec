//! Whom and which calls a command or a verdict binds.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::engine::{self, IdentityRecipe, ScopeKind};
use crate::identity::{CallRules, Hash128};
use crate::whom::{Kind, Whom};
use crate::wire::{Text, is_empty};

/// `scope` of a command and of a verdict.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Scope<'a> {
    /// Word of a [`ScopeKind`].
    pub kind: Text<'a>,
    /// The agent whose history gave the command; none where it is about a swarm or the fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Text<'a>>,
    /// Who is bound where the kind is `group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Text<'a>>,
    /// Narrows to calls of any of these tools; one may end in `*`.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub tools: Cow<'a, [String]>,
    /// Narrows to calls with this identity: 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Text<'a>>,
    /// How the fingerprint is made; none: of all arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity<'a>>,
    /// Swarm scope: these agents only; empty: each that makes a matching call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<AgentName<'a>>,
}

/// `group` of a scope, and of the subject of a row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GroupName<'a> {
    /// Word of a [`Kind`]; one that is not known binds nobody.
    pub kind: Text<'a>,
    /// Name of the agent, session, swarm or tree, or the label as `key=value`; left out of the whole tenant.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Text<'a>,
    /// Who binds it, as `budget/NAME/day`, or `stop`.
    pub by: Text<'a>,
}

/// An operator binds a group.
pub(super) const BY_STOP: &str = "stop";

/// An agent of `only`.
#[derive(Debug, Serialize, Deserialize)]
pub struct AgentName<'a> {
    pub session_id: Text<'a>,
    pub agent_id: Text<'a>,
}

/// How a worker recomputes the fingerprint of a scope.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Identity<'a> {
    /// One of `CALL`, `COARSE`, `ARGS`, `OPAQUE`; none: `CALL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Text<'a>>,
    /// Only these top-level arguments; empty: all.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub args: Cow<'a, [String]>,
    /// All arguments but these.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub args_ignored: Cow<'a, [String]>,
}

const CALL: &str = "call";
const COARSE: &str = "coarse";
const ARGS: &str = "args";
const OPAQUE: &str = "opaque";

impl<'a> Scope<'a> {
    /// The scope of a command whose subject is this agent or this group, if it is one.
    pub(super) fn of(scope: &'a engine::Scope, agent_id: Option<&'a str>, group: Option<GroupName<'a>>) -> Self {
        Self {
            kind: scope.kind.as_str().into(),
            agent_id: agent_id.map(Cow::Borrowed),
            group,
            tool: scope.tool.as_deref().map(Cow::Borrowed),
            tools: scope.tools.as_slice().into(),
            fingerprint: scope.fingerprint.as_ref().map(|(fingerprint, _)| fingerprint.to_string().into()),
            identity: scope.fingerprint.as_ref().map(|(_, recipe)| Identity::of(recipe)),
            only: scope
                .only
                .iter()
                .map(|(session_id, agent_id)| AgentName { session_id: session_id.into(), agent_id: agent_id.into() })
                .collect(),
        }
    }

    /// The scope as whoever obeys it understands it; none where its kind or its fingerprint is not known. `agent_id` and `group` stand beside
    /// it.
    #[must_use]
    pub fn read(self) -> Option<engine::Scope> {
        let recipe = self.identity.map_or_else(|| IdentityRecipe::Call(CallRules::default()), Identity::read);
        let fingerprint = match self.fingerprint {
            Some(text) => Some((Hash128::from_hex(&text)?, recipe)),
            None => None,
        };
        Some(engine::Scope {
            kind: ScopeKind::from_name(&self.kind)?,
            tool: self.tool.map(Cow::into_owned),
            tools: self.tools.into_owned(),
            fingerprint,
            only: self.only.into_iter().map(|only| (only.session_id.into_owned(), only.agent_id.into_owned())).collect(),
        })
    }
}

impl<'a> GroupName<'a> {
    pub(super) fn of(whom: &'a Whom, by: &'a str) -> Self {
        Self { kind: whom.kind.as_str().into(), name: Cow::Borrowed(&whom.name), by: by.into() }
    }

    /// Those of a tenant that it names, and what binds them; none where the kind is not known.
    #[must_use]
    pub fn read(self, tenant: &str) -> Option<(Whom, String)> {
        let kind = Kind::from_name(&self.kind).filter(|kind| kind.is_in_tenant())?;
        Some((Whom::new(tenant, kind, &self.name), self.by.into_owned()))
    }
}

impl<'a> Identity<'a> {
    fn of(recipe: &'a IdentityRecipe) -> Self {
        let (kind, args, ignored): (_, &[String], &[String]) = match recipe {
            IdentityRecipe::Call(rules) => (CALL, &rules.args, &rules.args_ignored),
            IdentityRecipe::Coarse(args) => (COARSE, args, &[]),
            IdentityRecipe::Args(rules) => (ARGS, &rules.args, &rules.args_ignored),
            IdentityRecipe::Opaque => (OPAQUE, &[], &[]),
        };
        Self { kind: Some(kind.into()), args: args.into(), args_ignored: ignored.into() }
    }

    fn read(self) -> IdentityRecipe {
        let sorted = |names: Cow<'_, [String]>| -> Arc<[String]> {
            let mut names = names.into_owned();
            names.sort_unstable();
            names.into()
        };
        let rules = CallRules { args: sorted(self.args), args_ignored: sorted(self.args_ignored) };
        match self.kind.as_deref() {
            None | Some(CALL) => IdentityRecipe::Call(rules),
            Some(COARSE) => IdentityRecipe::Coarse(rules.args),
            Some(ARGS) => IdentityRecipe::Args(rules),
            // One that is not known cannot be made either.
            Some(_) => IdentityRecipe::Opaque,
        }
    }
}
