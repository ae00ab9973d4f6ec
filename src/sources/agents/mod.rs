//! The agents: a folder for each, with what its hooks, its logs and its telemetry look like and how its hooks are installed, and a row for
//! each folder.

mod antigravity;
mod claude_code;
mod claude_like;
mod cline;
mod codex;
mod copilot;
mod cursor;
mod gemini;
mod goose;
mod opencode;
mod openhands;
mod qwen;

use crate::{Agent, install::Install};

/// All agents. Of two that are equally sure of a log or an export, the first reads it.
pub static AGENTS: [Agent; 12] = [
    claude_code::AGENT,
    codex::AGENT,
    gemini::AGENT,
    qwen::AGENT,
    opencode::AGENT,
    copilot::AGENT,
    cursor::AGENT,
    goose::AGENT,
    openhands::AGENT,
    cline::AGENT,
    antigravity::AGENT,
    claude_like::AGENT,
];

/// An agent, by its name.
#[must_use]
pub fn agent(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// Agents that hooks can be installed for.
pub fn installable() -> impl Iterator<Item = (&'static str, &'static Install)> {
    AGENTS.iter().filter_map(|agent| Some((agent.name, agent.install.as_ref()?)))
}
