//! Claude Code.

pub(super) mod hook;
pub(super) mod install;
mod otlp;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "claude-code",
    title: "Claude Code",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};
