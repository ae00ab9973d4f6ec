//! Antigravity CLI.

mod hook;
mod install;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "antigravity",
    title: "Antigravity CLI",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: None,
    telemetry: None,
};
