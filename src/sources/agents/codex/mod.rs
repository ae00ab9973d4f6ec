//! Codex.

mod hook;
mod install;
mod otlp;
mod shell_output;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "codex",
    title: "Codex",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};
