//! OpenHands.

mod hook;
mod install;
mod transcript;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "openhands",
    title: "OpenHands",
    hook: Some(hook::HOOK),
    install: Some(install::INSTALL),
    log: Some(transcript::LOG),
    telemetry: None,
};
