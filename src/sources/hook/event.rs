//! What was heard of an agent: the event, and what its answer needs.

use loopwarden_guard::{Capabilities, Check, Client};
use serde_json::value::RawValue;

/// What was heard of an agent.
#[derive(Debug, Clone)]
pub struct HookEvent {
    /// Name of the agent, as in the address.
    pub agent: &'static str,
    /// The event to record; absent where what was said is no event.
    pub event: Option<Box<RawValue>>,
    /// Whether the agent waits for a decision. Else the event is only recorded.
    pub asks: bool,
    /// What this agent can do with an answer.
    pub can: Capabilities,
    /// The agent's own name of what happened, which its answer repeats; empty where nothing was understood.
    pub(crate) hook: String,
    /// Whether the call may still be refused.
    pub(crate) is_before: bool,
    /// Whether the answer takes Claude Code's nested form, where an agent has two.
    pub(crate) is_nested: bool,
}

impl HookEvent {
    /// Nothing that could be understood.
    pub(crate) const fn nothing(agent: &'static str) -> Self {
        let can = Capabilities::NOTHING;
        Self { agent, event: None, asks: false, can, hook: String::new(), is_before: false, is_nested: false }
    }

    /// The question for the guard; absent where there is no event. What asks nothing can do nothing with an answer, so that no nudge
    /// is spent on it.
    pub fn check(&self) -> Option<Check> {
        let can = if self.asks { self.can } else { Capabilities::NOTHING };
        let client = Client { name: self.agent.to_owned(), version: String::new(), can };
        self.event.clone().map(|event| Check::new(event, client))
    }
}
