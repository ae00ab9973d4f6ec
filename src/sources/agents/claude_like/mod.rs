//! An agent with the hooks of Claude Code.

mod hook;

use crate::agent::Agent;

pub(super) const AGENT: Agent = Agent {
    name: "claude-like",
    title: "an agent with the hooks of Claude Code",
    hook: Some(hook::HOOK),
    install: None,
    log: None,
    telemetry: None,
};
