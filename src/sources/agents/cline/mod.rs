//! Cline.

mod hook;
mod install;
mod tags;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "cline",
    title: "Cline",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};
