//! What commands and rows have in common: who is meant, and what is bound.

use loopwarden_core::engine::{CommandId, IdentityRecipe, Scope, SubjectKey};
use loopwarden_core::identity::base32;

use crate::encode::json;
use crate::encode::json::Object;

/// Version in commands and dead letters.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn id_text(id: &CommandId) -> String {
    base32(&id.0)
}

/// Tenant and session, or swarm; returns the agent.
pub(super) fn subject<'a>(json: &mut Object<'_>, subject: &'a SubjectKey) -> Option<&'a str> {
    let (tenant, agent_id) = match subject {
        SubjectKey::Agent { tenant, agent_id, .. } => (tenant, Some(agent_id.as_str())),
        SubjectKey::Swarm { tenant, .. } | SubjectKey::Fleet { tenant, .. } => (tenant, None),
    };
    if !tenant.is_empty() {
        json.text("tenant", tenant);
    }
    match subject {
        SubjectKey::Agent { session_id, .. } => json.text("session_id", session_id),
        SubjectKey::Swarm { swarm_id, .. } => json.text("swarm_id", swarm_id),
        SubjectKey::Fleet { .. } => {}
    }
    agent_id
}

pub(super) fn scope(json: &mut Object<'_>, scope: &Scope, agent_id: Option<&str>) {
    json.text("kind", scope.kind.as_str());
    if let Some(agent_id) = agent_id {
        json.text("agent_id", agent_id);
    }
    if let Some(tool) = &scope.tool {
        json.text("tool", tool);
    }
    if let Some((fingerprint, recipe)) = &scope.fingerprint {
        json.text("fingerprint", &fingerprint.to_string());
        json.object("identity", |json| identity(json, recipe));
    }
    if !scope.only.is_empty() {
        json.list("only", &scope.only, |(session_id, agent_id), out| {
            json::object(out, |json| {
                json.text("session_id", session_id);
                json.text("agent_id", agent_id);
            });
        });
    }
}

fn identity(json: &mut Object<'_>, recipe: &IdentityRecipe) {
    let (kind, args, ignored): (_, &[String], &[String]) = match recipe {
        IdentityRecipe::Call { args, args_ignored } => ("call", args, args_ignored),
        IdentityRecipe::Coarse { args } => ("coarse", args, &[]),
        IdentityRecipe::Args => ("args", &[], &[]),
        IdentityRecipe::Opaque => ("opaque", &[], &[]),
    };
    json.text("kind", kind);
    if !args.is_empty() {
        json.texts("args", args);
    }
    if !ignored.is_empty() {
        json.texts("args_ignored", ignored);
    }
}
