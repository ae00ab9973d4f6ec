//! Gemini CLI.

pub(super) mod hook;
mod install;
pub(super) mod otlp;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "gemini",
    title: "Gemini CLI",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};
