//! Qwen Code.

mod hook;
mod install;
mod otlp;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "qwen",
    title: "Qwen Code",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: Some(otlp::CONVENTION),
};
