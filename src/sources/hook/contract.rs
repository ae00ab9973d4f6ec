//! What an agent reports to its hooks, what was understood of it, and what it reads of the answer.

use loopwarden_guard::{Answer, Capabilities, Check, Client, Decision, MESSAGE_CHARS_MAX};
use serde_json::{Value as Json, value::RawValue};

use crate::hook::{message::HookMessage, object::Object};

/// What one agent reports to its hooks, and what it reads.
#[derive(Debug)]
pub struct Hook {
    /// What it can do with an answer.
    pub can: Capabilities,
    /// What its hooks cannot do, for people. One sentence each.
    pub lacks: &'static [&'static str],
    /// Names of the field that has the name of the event.
    pub(crate) event: &'static [&'static str],
    pub(crate) read: for<'a> fn(&str, &Object<'a>) -> Option<HookMessage<'a>>,
    pub(crate) answer: fn(&HookEvent, &Say) -> Option<Json>,
    /// The answer without an opinion; absent where that is an empty body.
    pub(crate) nothing: Option<fn() -> Json>,
}

/// Most agents name the event so.
pub(crate) const EVENT: &[&str] = &["hook_event_name"];
/// What an agent can do that reads a text behind a result.
pub(crate) const AFTER: Capabilities = Capabilities { context_after: true, ..Capabilities::DENY };

impl Hook {
    /// The answer without an opinion; empty where that is an empty body.
    #[must_use]
    pub fn no_opinion(&self) -> String {
        self.nothing.map(|nothing| nothing().to_string()).unwrap_or_default()
    }
}

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

/// Stands for the text of a refusal that has none.
const REFUSED: &str = "This call was refused: it has been made before with the same result";

/// A text for the model, and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Say {
    /// Never empty.
    pub(crate) text: String,
    /// The call must not run.
    pub(crate) deny: bool,
    pub(crate) stop: bool,
}

impl Say {
    /// What is to be said; `None` where there is nothing. `is_before` tells a call that may still be refused.
    pub(crate) fn of(answer: &Answer, is_before: bool) -> Option<Self> {
        let deny = is_before && answer.decision == Decision::Deny;
        let text: String = answer.message.as_deref().unwrap_or_default().chars().take(MESSAGE_CHARS_MAX).collect();
        match text.trim() {
            "" if deny || answer.stop => Some(Self { text: REFUSED.to_owned(), deny, stop: answer.stop }),
            "" => None,
            _ => Some(Self { text, deny, stop: answer.stop }),
        }
    }
}
