//! Whom and which calls a command or a verdict binds.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::engine::{self, IdentityRecipe};
use crate::identity::{CallRules, Hash128};
use crate::whom::Kind;
use crate::wire::{Text, is_empty, subject::Subject};

/// `scope` of a command and of a verdict.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Scope<'a> {
    /// Word of a [`Kind`]: what those that are bound have in common. One that is not known binds nobody.
    pub kind: Text<'a>,
    /// Their name, where neither `session_id` nor `swarm_id` of the command is it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Text<'a>>,
    /// What binds them in all that they call, as `stop` or `budget/NAME/day`; none: a loop was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Text<'a>>,
    /// Narrows a session to the agent in whose history the loop was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Text<'a>>,
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
    /// Of many: these agents only; empty: each that makes a matching call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<AgentName<'a>>,
}

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
    /// The scope of a command about a subject.
    #[must_use]
    pub fn of(scope: &'a engine::Scope, subject: &Subject<'a>) -> Self {
        Self {
            kind: subject.kind.into(),
            name: subject.name.map(Cow::Borrowed),
            by: subject.by.map(Cow::Borrowed),
            agent_id: subject.agent_id.map(Cow::Borrowed),
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

    /// Which calls it binds, as whoever obeys it understands it; none where its kind or its fingerprint is not known.
    #[must_use]
    pub fn read(self) -> Option<engine::Scope> {
        Kind::from_name(&self.kind)?;
        let recipe = self.identity.map_or_else(|| IdentityRecipe::Call(CallRules::default()), Identity::read);
        let fingerprint = match self.fingerprint {
            Some(text) => Some((Hash128::from_hex(&text)?, recipe)),
            None => None,
        };
        Some(engine::Scope {
            tool: self.tool.map(Cow::into_owned),
            tools: self.tools.into_owned(),
            fingerprint,
            only: self.only.into_iter().map(|only| (only.session_id.into_owned(), only.agent_id.into_owned())).collect(),
        })
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
